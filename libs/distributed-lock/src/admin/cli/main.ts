#!/usr/bin/env node
// npx nestjs-distributed-lock: finds and frees locks from a terminal. For its commands and output see docs/recipes/stuck-lock.md
import { systemClock } from '../../common/clock.js';
import { INTERRUPTED, Interrupted, OutputFailed, ProcessTerminal, run } from './run.js';

/** The process exits this many ms after the command has ended, even if the client of a store still keeps a connection open. */
const PATIENCE_MS = 1000;
const NOT_WRITTEN = 4;

const stopping = new AbortController();
const terminal = new ProcessTerminal(stopping.signal);

process.on('SIGINT', () => {
  // The first Ctrl-C closes the store before the process exits. At the second one exit at once.
  if (stopping.signal.aborted) process.exit(INTERRUPTED);
  stopping.abort(new Interrupted());
});

async function codeOf(words: readonly string[]): Promise<number> {
  try {
    const code = await run(words, process.env, terminal);
    await terminal.flush();
    return code;
  } catch (error) {
    if (error instanceof Interrupted) return INTERRUPTED;
    const text = error instanceof Error ? error.stack : String(error);
    terminal.complain(error instanceof OutputFailed ? error.message : (text ?? ''));
    return error instanceof OutputFailed ? NOT_WRITTEN : 70;
  }
}

process.exitCode = await codeOf(process.argv.slice(2));
process.stdin.unref?.();
// Start the timer when all earlier error output was written, so that a slow reader gets all of it before the process exits.
process.stderr.write('', () => systemClock.after(PATIENCE_MS, () => process.exit()));
