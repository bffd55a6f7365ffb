#!/usr/bin/env node
// npx nestjs-distributed-lock: finds and frees locks from a terminal. What it says and does: docs/recipes/stuck-lock.md
import { systemClock } from '../../common/clock.js';
import { INTERRUPTED, Interrupted, OutputFailed, processTerminal, run } from './run.js';

/** The process ends this many ms after the command, even if a client of the store keeps a connection open. */
const PATIENCE_MS = 1000;
const NOT_WRITTEN = 4;

const stopping = new AbortController();
const terminal = processTerminal(stopping.signal);

process.on('SIGINT', () => {
  // The second Ctrl-C does not wait for the locks to be closed.
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
// Start the timer after all earlier output has left, so that a slow reader gets all complaints.
process.stderr.write('', () => systemClock.after(PATIENCE_MS, () => process.exit()));
