import { fileURLToPath } from 'node:url';
import { spawnGuarded } from '#processes';

/** As npm links it. */
const PROGRAM = fileURLToPath(new URL('../../../libs/distributed-lock/dist/cli.js', import.meta.url));

export interface CliRun {
  readonly out: () => string;
  readonly complaints: () => string;
  readonly signal: (signal: NodeJS.Signals) => void;
  /** Nobody reads what it writes any more. */
  readonly leave: () => void;
  readonly code: Promise<number | null>;
}

export interface CliOptions {
  readonly env?: Record<string, string>;
  /** Options of Node itself. */
  readonly node?: readonly string[];
}

/** Starts the built program in a process of its own, without a terminal. */
export function startCli(words: readonly string[], { env = {}, node = [] }: CliOptions = {}): CliRun {
  const { child, exited } = spawnGuarded(process.execPath, [...node, PROGRAM, ...words], {
    stdio: 'pipe',
    env: { ...process.env, LOCK_STORE: '', ...env },
  });
  let [out, complaints] = ['', ''];
  child.stdout!.on('data', (text: Buffer) => (out += text.toString()));
  child.stderr!.on('data', (text: Buffer) => (complaints += text.toString()));
  return {
    out: () => out,
    complaints: () => complaints,
    signal: (signal) => void child.kill(signal),
    leave: () => child.stdout!.destroy(),
    code: exited.then(() => child.exitCode),
  };
}

/** Waits for the end of the program. */
export async function runCli(
  words: readonly string[],
  options?: CliOptions,
): Promise<{ readonly code: number | null; readonly out: string; readonly complaints: string }> {
  const run = startCli(words, options);
  const code = await run.code;
  return { code, out: run.out(), complaints: run.complaints() };
}
