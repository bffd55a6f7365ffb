import { createInterface } from 'node:readline/promises';
import { systemClock } from '../../common/clock.js';
import { unlessAborted } from '../../common/listeners.js';
import { ignoreFailure } from '../../common/promises.js';
import { LockService } from '../../lock/lock.service.js';
import { isLockError, LockConfigurationError } from '../../port/lock.errors.js';
import { readCommandLine, USAGE, WrongUse } from './command-line.js';
import { COMMANDS } from './commands.js';
import { openStore } from './open-store.js';

export const INTERRUPTED = 130;
/** The module's default of `watchdogTimeoutMs`. Stores require at least three times `commandTimeoutMs`. */
const WATCHDOG_MS = 30_000;

/**
 * Runs one command, and prints errors without passwords.
 *
 * @returns the exit code
 */
export async function run(
  words: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  terminal: Terminal,
): Promise<number> {
  let url = '';
  try {
    const command = readCommandLine(words, env);
    if (command === 'help') {
      terminal.write(USAGE);
      return 0;
    }
    url = command.store;
    const { prefix: keyPrefix, timeoutMs } = command;
    const store = await openStore(command);
    const watchdogTimeoutMs = Math.max(WATCHDOG_MS, 3 * timeoutMs);
    const locks = new LockService({
      store,
      keyPrefix,
      application: 'nestjs-distributed-lock',
      watchdogTimeoutMs,
      shutdownGraceMs: 0,
    });
    try {
      return await COMMANDS[command.name](locks, command, terminal);
    } finally {
      await locks.close();
    }
  } catch (error) {
    if (error instanceof Interrupted) return INTERRUPTED;
    const code = exitCodeOf(error);
    if (code === undefined) throw error;
    terminal.complain(withoutSecrets((error as Error).message, url));
    return code;
  }
}

function exitCodeOf(error: unknown): number | undefined {
  if (error instanceof WrongUse || error instanceof LockConfigurationError) return 2;
  if (!isLockError(error)) return undefined;
  return error.code === 'LOCK_STORE' ? 3 : 2;
}

/** Removes the password of a URL from a text, in each form in which a client's error may repeat it. */
export function withoutSecrets(text: string, url: string): string {
  const [, inUser] = /^[a-z]+:\/\/[^:@/]*:(.*)@/is.exec(url) ?? [];
  const inQuery = [...url.matchAll(/[?&][^=&]*(?:pass|auth|key)[^=&]*=([^&]+)/gi)].map(([, value]) => value);
  const secrets = [inUser, ...inQuery].filter((it) => it !== undefined && it !== '') as string[];
  const forms = secrets.flatMap((secret) => [secret, decoded(secret)]);
  return forms.reduce((shown, secret) => shown.replaceAll(secret, '***'), text);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The command ends early: somebody pressed Ctrl-C, or the reader of the output has left. */
export class Interrupted extends Error {}

/** Writing the output failed, for instance because the disk is full. */
export class OutputFailed extends Error {}

/** The terminal as commands use it: only `main` waits for the output by `flush`. */
export type Terminal = Omit<ProcessTerminal, 'flush'>;

/** The terminal of this process. */
export class ProcessTerminal {
  /** The width of the terminal; `Infinity` if the output goes elsewhere. */
  readonly width: number;
  /** True if somebody can answer a question. */
  readonly canAsk: boolean;
  private output: Promise<unknown> = Promise.resolve();

  /** @param signal aborts with `Interrupted` when the command has to end */
  constructor(
    private readonly signal: AbortSignal,
    private readonly streams: Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr'> = process,
  ) {
    const { stdin, stdout, stderr } = streams;
    this.width = stdout.isTTY ? stdout.columns : Infinity;
    this.canAsk = stdin.isTTY;
    // Ignore the event here: the callback of each `write` gets the error as well.
    for (const stream of [stdout, stderr]) stream.on('error', () => undefined);
  }

  /**
   * Waits for `work`, but no longer than until the command has to end.
   *
   * @throws Interrupted as soon as it has to
   */
  unlessInterrupted<T>(work: Promise<T>): Promise<T> {
    return unlessAborted(this.signal, work);
  }

  /**
   * Waits until everything that was written has reached its reader, or the operating system.
   *
   * @throws Interrupted when the reader has left, as `head` does
   * @throws OutputFailed when writing failed
   */
  async flush(): Promise<void> {
    await this.unlessInterrupted(this.output);
  }

  write(text: string): void {
    this.output = Promise.all([this.output, written(this.streams.stdout, text)]);
    ignoreFailure(this.output);
  }

  /** Writes a message to stderr. */
  complain(message: string): void {
    this.streams.stderr.write(`${message}\n`);
  }

  /** Asks a yes-or-no question, and returns true for yes. */
  async ask(question: string): Promise<boolean> {
    const { stdin: input, stderr: output } = this.streams;
    const lines = createInterface({ input, output });
    // readline catches Ctrl-C while it asks. Pass it on to the process.
    lines.on('SIGINT', () => process.kill(process.pid, 'SIGINT'));
    const answer = this.unlessInterrupted(lines.question(`${question} [y/N] `));
    return /^y(es)?$/i.test((await answer.finally(() => lines.close())).trim());
  }

  /**
   * Waits until everything was written, and then for `ms`.
   *
   * @throws as `flush` does
   */
  async pause(ms: number): Promise<void> {
    await this.flush();
    let cancel = (): void => undefined;
    const over = new Promise<void>((resolve) => (cancel = systemClock.after(ms, resolve)));
    await this.unlessInterrupted(over).finally(() => cancel());
  }
}

function written(stream: NodeJS.WriteStream, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(text, (error) => {
      if (!error) resolve();
      else reject((error as NodeJS.ErrnoException).code === 'EPIPE' ? new Interrupted() : outputError(error));
    });
  });
}

function outputError(cause: Error): OutputFailed {
  return new OutputFailed(`The output could not be written, so it is not whole: ${cause.message}`, { cause });
}
