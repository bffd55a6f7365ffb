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
 * What is written to `stream` in this turn of the event loop leaves in few system calls, and the server reads it at once.
 *
 * A process that exits in the same turn still sends it: a release is on its way when its call has settled.
 */
export function writeTogether(stream: Writable): void {
  const its = heldOf(stream);
  if (its.commands === MOST_TOGETHER) release(its);
  if (its.commands === 0) hold(its);
  its.commands += 1;
}

/** What was written to `stream` in this turn so far leaves now. */
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
