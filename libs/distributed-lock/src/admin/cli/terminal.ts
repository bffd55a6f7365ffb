import { createInterface } from 'node:readline/promises';
import { systemClock } from '../../time/clock.js';

/** Ctrl-C was pressed, or nobody reads any more. */
export class Interrupted extends Error {}

/** What commands read and write. */
export interface Terminal {
  /** How wide a line may be; `Infinity` where no terminal shows it. */
  readonly width: number;
  /** Whether a person can answer. */
  readonly canAsk: boolean;
  write(text: string): void;
  /** Writes to the error output. */
  complain(message: string): void;
  /** @returns whether the answer is yes */
  ask(question: string): Promise<boolean>;
  /** @throws Interrupted as soon as the command is to end, also while `work` goes on */
  unlessInterrupted<T>(work: Promise<T>): Promise<T>;
  /** @throws Interrupted */
  pause(ms: number): Promise<void>;
}

/** The terminal of this process. @param signal aborts when the command is to end */
export function processTerminal(signal: AbortSignal): Terminal {
  const { stdin, stdout, stderr } = process;
  const unlessInterrupted = async <T>(work: Promise<T>): Promise<T> => {
    let stop = (): void => undefined;
    const interrupted = new Promise<never>((_, reject) => (stop = () => reject(new Interrupted())));
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop);
    return Promise.race([work, interrupted]).finally(() => signal.removeEventListener('abort', stop));
  };
  return {
    width: stdout.isTTY ? stdout.columns : Infinity,
    canAsk: stdin.isTTY,
    write: (text) => {
      stdout.write(text);
    },
    complain: (message) => {
      stderr.write(`${message}\n`);
    },
    async ask(question) {
      const lines = createInterface({ input: stdin, output: stderr });
      // It would keep Ctrl-C to itself.
      lines.on('SIGINT', () => process.kill(process.pid, 'SIGINT'));
      try {
        const answer = await unlessInterrupted(lines.question(`${question} [y/N] `));
        return /^y(es)?$/i.test(answer.trim());
      } finally {
        lines.close();
      }
    },
    unlessInterrupted,
    async pause(ms) {
      let cancel = (): void => undefined;
      const over = new Promise<void>((resolve) => (cancel = systemClock.after(ms, resolve)));
      await unlessInterrupted(over).finally(() => cancel());
    },
  };
}
