import type { Writable } from 'node:stream';

/** Few enough that the server answers the first while the next are still made, many enough to share a system call. */
const MOST_TOGETHER = 16;

/** A stream whose writes are held back, and of how many commands. */
interface Held {
  readonly stream: Writable;
  commands: number;
}

const known = new WeakMap<Writable, Held>();
let held: Held[] = [];
let flushesAtExit = false;

/**
 * Sends the commands that are written to `stream` in this turn of the event loop in few system calls
 * (`npm run bench -- --only spread`).
 *
 * A process that exits in the same turn still sends them: a release is on its way when its call has settled.
 */
export function writeTogether(stream: Writable): void {
  const its = heldOf(stream);
  if (its.commands === MOST_TOGETHER) release(its);
  if (its.commands === 0) hold(its);
  its.commands += 1;
}

/** Sends the commands that were written to `stream` in this turn so far. */
export function writeNow(stream: Writable): void {
  release(heldOf(stream));
}

function heldOf(stream: Writable): Held {
  let its = known.get(stream);
  if (!its) known.set(stream, (its = { stream, commands: 0 }));
  return its;
}

function hold(its: Held): void {
  if (!flushesAtExit) process.once('exit', flush);
  flushesAtExit = true;
  if (held.length === 0) process.nextTick(flush);
  held.push(its);
  its.stream.cork();
}

function flush(): void {
  const all = held;
  held = [];
  all.forEach(release);
}

function release(its: Held): void {
  if (its.commands === 0) return;
  its.commands = 0;
  its.stream.uncork();
}
