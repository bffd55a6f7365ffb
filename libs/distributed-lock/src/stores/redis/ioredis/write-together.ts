import type { Writable } from 'node:stream';

/** How many commands share a system call. With more, the server would wait for the last one before it could answer the first. */
const MAX_TOGETHER = 16;

const known = new WeakMap<Writable, Corked>();
let corked: Corked[] = [];
let flushesAtExit = false;

/**
 * Sends the commands that are written to `stream` in this turn of the event loop in few system calls
 * (`npm run bench -- --only spread`).
 *
 * A process that exits in the same turn still sends them: a release is on its way when its call has settled.
 */
export function writeTogether(stream: Writable): void {
  const its = corkedOf(stream);
  if (its.commands === MAX_TOGETHER) uncork(its);
  if (its.commands === 0) cork(its);
  its.commands += 1;
}

/** A stream, and how many commands it keeps back while it is corked. */
interface Corked {
  readonly stream: Writable;
  commands: number;
}

/** Sends the commands that were written to `stream` in this turn so far. */
export function writeNow(stream: Writable): void {
  uncork(corkedOf(stream));
}

function corkedOf(stream: Writable): Corked {
  let its = known.get(stream);
  if (!its) known.set(stream, (its = { stream, commands: 0 }));
  return its;
}

function cork(its: Corked): void {
  if (!flushesAtExit) process.once('exit', flush);
  flushesAtExit = true;
  if (corked.length === 0) process.nextTick(flush);
  corked.push(its);
  its.stream.cork();
}

function flush(): void {
  const all = corked;
  corked = [];
  all.forEach(uncork);
}

function uncork(its: Corked): void {
  if (its.commands === 0) return;
  its.commands = 0;
  its.stream.uncork();
}
