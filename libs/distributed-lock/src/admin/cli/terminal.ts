import { createInterface } from 'node:readline/promises';
import { unlessAborted } from '../../async-context/abort-listeners.js';
import { systemClock } from '../../time/clock.js';

/** Ctrl-C was pressed, or nobody reads any more. */
export class Interrupted extends Error {}

export type Terminal = ReturnType<typeof processTerminal>;

/** The terminal of this process. @param signal aborts with `Interrupted` when the command is to end */
export function processTerminal(signal: AbortSignal) {
  const { stdin, stdout, stderr } = process;
  /** @throws Interrupted as soon as the command is to end, also while `work` goes on */
  const unlessInterrupted = <T>(work: Promise<T>): Promise<T> => unlessAborted(signal, work);
  return {
    unlessInterrupted,
    /** How wide a line may be; `Infinity` where no terminal shows it. */
    width: stdout.isTTY ? stdout.columns : Infinity,
    /** Whether a person can answer. */
    canAsk: stdin.isTTY,
    write(text: string): void {
      stdout.write(text);
    },
    /** Writes to the error output. */
    complain(message: string): void {
      stderr.write(`${message}\n`);
    },
    /** @returns whether the answer is yes */
    async ask(question: string): Promise<boolean> {
      const lines = createInterface({ input: stdin, output: stderr });
      // The interface catches Ctrl-C, and the process would not get the signal.
      lines.on('SIGINT', () => process.kill(process.pid, 'SIGINT'));
      try {
        const answer = await unlessInterrupted(lines.question(`${question} [y/N] `));
        return /^y(es)?$/i.test(answer.trim());
      } finally {
        lines.close();
      }
    },
    /** @throws Interrupted */
    async pause(ms: number): Promise<void> {
      let cancel = (): void => undefined;
      const over = new Promise<void>((resolve) => (cancel = systemClock.after(ms, resolve)));
      await unlessInterrupted(over).finally(() => cancel());
    },
  };
}
