#!/usr/bin/env node
// npx nestjs-distributed-lock: finds and frees locks from a terminal. What it says and does: docs/recipes/stuck-lock.md
import { systemClock } from '../../time/clock.js';
import { INTERRUPTED, run } from './run.js';
import { Interrupted, processTerminal } from './terminal.js';

/** The process ends this many ms after the command, even if a client of the store keeps a connection open. */
const PATIENCE_MS = 1000;

const stopping = new AbortController();

function end(code: number): void {
  process.exitCode = code;
  process.stdin.unref?.();
  systemClock.after(PATIENCE_MS, () => process.exit());
}

process.on('SIGINT', () => {
  // The second Ctrl-C does not wait for the locks to be closed.
  if (stopping.signal.aborted) process.exit(INTERRUPTED);
  stopping.abort(new Interrupted());
});
// A reader such as `head` has closed the pipe.
process.stdout.on('error', () => stopping.abort(new Interrupted()));

run(process.argv.slice(2), process.env, processTerminal(stopping.signal)).then(end, (error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
  end(70);
});
