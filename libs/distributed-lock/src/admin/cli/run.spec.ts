import { PassThrough, Writable } from 'node:stream';
import { describe, expect, it } from '@jest/globals';
import { Interrupted, OutputFailed, ProcessTerminal } from './run.js';

/** A terminal whose output is taken, or fails, when the test says so. */
function open() {
  const taken: string[] = [];
  const pending: ((error?: Error) => void)[] = [];
  const stdout = new Writable({
    write(chunk: Buffer, _, callback) {
      taken.push(chunk.toString());
      pending.push(callback);
    },
  });
  const stopping = new AbortController();
  const streams = { stdin: new PassThrough(), stdout, stderr: new PassThrough() };
  const terminal = new ProcessTerminal(
    stopping.signal,
    streams as unknown as Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr'>,
  );
  return { terminal, taken, stopping, take: (error?: Error) => pending.shift()?.(error) };
}

async function isSettled(work: Promise<unknown>): Promise<boolean> {
  const settled = work.then(
    () => true,
    () => true,
  );
  return Promise.race([settled, new Promise<boolean>((resolve) => setImmediate(() => resolve(false)))]);
}

const failed = (code: string) => Object.assign(new Error(`${code}: no space left`), { code });

describe('the output of a command', () => {
  it('is over when a slow reader has all of it, and not before', async () => {
    const { terminal, taken, take } = open();
    terminal.write('first\n');
    terminal.write('last\n');
    const flushed = terminal.flush();
    expect(await isSettled(flushed)).toBe(false);
    take();
    expect(await isSettled(flushed)).toBe(false);
    await new Promise(setImmediate);
    take();
    await flushed;
    expect(taken.join('')).toBe('first\nlast\n');
  });

  it('that cannot be written is an error with the reason', async () => {
    const { terminal, take } = open();
    terminal.write('text');
    take(failed('ENOSPC'));
    await expect(terminal.flush()).rejects.toBeInstanceOf(OutputFailed);
    await expect(terminal.pause(60_000)).rejects.toThrow(/could not be written.*ENOSPC/);
  });

  it('ends without a word when its reader has left', async () => {
    const { terminal, take } = open();
    terminal.write('text');
    take(failed('EPIPE'));
    await expect(terminal.flush()).rejects.toBeInstanceOf(Interrupted);
  });

  it('that nobody reads is given up by Ctrl-C', async () => {
    const { terminal, stopping } = open();
    terminal.write('text');
    const flushed = terminal.flush();
    stopping.abort(new Interrupted());
    await expect(flushed).rejects.toBeInstanceOf(Interrupted);
  });
});
