#!/usr/bin/env node
// npx nestjs-distributed-lock: finds and frees locks from a terminal. What it says and does: docs/recipes/stuck-lock.md
import { systemClock } from '../../time/clock.js';
import { INTERRUPTED, run } from './run.js';
import { Interrupted, processTerminal } from './terminal.js';

/** After this many ms a store that does not let go ends with the process. */
const PATIENCE_MS = 1000;

const stopping = new AbortController();

function end(code: number): void {
  process.exitCode = code;
  process.stdin.unref?.();
  systemClock.after(PATIENCE_MS, () => process.exit());
}

process.on('SIGINT', () => {
  // Whoever presses it twice does not want to wait.
  if (stopping.signal.aborted) process.exit(INTERRUPTED);
  stopping.abort(new Interrupted());
});
// As of `| head`, which has read enough.
process.stdout.on('error', () => stopping.abort(new Interrupted()));

run(process.argv.slice(2), process.env, processTerminal(stopping.signal)).then(end, (error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
  end(70);
});
