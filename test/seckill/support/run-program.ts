import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** The longest that a program of the flash sale may run. */
export const LIMIT_MS = 120_000;

/** Whatever servers the tests run on: a program brings its own database, unless a test names another. */
export const OWN_SERVERS = { REDIS_URL: '', DATABASE_URL: '', PORT: '0' };

export interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

type Program = 'demo/main' | 'start';

/** The file behind `npm run demo` and `npm start`. */
export function programOf(name: Program): string {
  return fileURLToPath(new URL(`../../../dist/apps/seckill/${name}.js`, import.meta.url));
}

/** Runs it to its end. Never rejects. */
export function runProgram(
  name: Program,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  return new Promise((resolve) => {
    const options = { timeout: LIMIT_MS, env: { ...process.env, ...OWN_SERVERS, ...env } };
    const child = execFile(process.execPath, [programOf(name), ...args], options, (_error, stdout, stderr) =>
      resolve({ status: child.exitCode, stdout, stderr }),
    );
  });
}
