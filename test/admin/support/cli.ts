import { fileURLToPath } from 'node:url';
import { spawnGuarded } from '#processes';
import { run, type Terminal } from '../../../libs/distributed-lock/src/admin/cli/run.js';

/** As npm links it. */
export const PROGRAM = fileURLToPath(new URL('../../../libs/distributed-lock/dist/cli.js', import.meta.url));

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

export interface CliOutcome {
  readonly code: number | null;
  readonly out: string;
  readonly complaints: string;
}

/** Waits for the end of the program. */
export async function runCli(words: readonly string[], options?: CliOptions): Promise<CliOutcome> {
  const run = startCli(words, options);
  const code = await run.code;
  return { code, out: run.out(), complaints: run.complaints() };
}

/** Runs a command in this process, which is sooner done. @param answer what a person says, maybe later; without it nobody can answer */
export async function runHere(
  words: readonly string[],
  {
    env = {},
    answer,
  }: {
    readonly env?: Record<string, string>;
    readonly answer?: boolean | (() => Promise<boolean>);
  } = {},
): Promise<CliOutcome> {
  let [out, complaints] = ['', ''];
  const terminal: Terminal = {
    width: Infinity,
    canAsk: answer !== undefined,
    write: (text) => void (out += text),
    complain: (message) => void (complaints += `${message}\n`),
    ask: async () => (typeof answer === 'function' ? answer() : answer === true),
    unlessInterrupted: async (work) => work,
    pause: async () => undefined,
  };
  const code = await run(words, env, terminal);
  return { code, out, complaints };
}
