import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** The longest that a program of the flash sale may run. */
export const LIMIT_MS = 120_000;

/** Whatever the tests run on: a program brings its own servers, unless a test names others. */
export const OWN_SERVERS = {
  STORE: '',
  REDIS_URL: '',
  DATABASE_URL: '',
  MYSQL_URL: '',
  ETCD_URL: '',
  ZOOKEEPER_HOSTS: '',
};

export interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The file behind `npm run demo` and `npm start`. */
export function programOf(folder: 'demo' | 'serve'): string {
  return fileURLToPath(new URL(`../../../dist/apps/seckill/${folder}/main.js`, import.meta.url));
}

/** Runs it to its end. Never rejects. */
export function runProgram(
  folder: 'demo' | 'serve',
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  return new Promise((resolve) => {
    const options = { timeout: LIMIT_MS, env: { ...process.env, ...OWN_SERVERS, ...env } };
    const child = execFile(
      process.execPath,
      [programOf(folder), ...args],
      options,
      (_error, stdout, stderr) => resolve({ status: child.exitCode, stdout, stderr }),
    );
  });
}
