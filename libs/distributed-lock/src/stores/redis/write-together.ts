import type { Writable } from 'node:stream';

const corked = new Set<Writable>();
let flushesAtExit = false;

/**
 * What is written to `stream` in this turn of the event loop leaves in one system call, and the server reads it at once.
 *
 * A process that exits in the same turn still sends it: a release is on its way when its call has settled.
 */
export function writeTogether(stream: Writable): void {
  if (corked.has(stream)) return;
  if (!flushesAtExit) process.once('exit', flush);
  flushesAtExit = true;
  if (corked.size === 0) process.nextTick(flush);
  corked.add(stream);
  stream.cork();
}

/** What was written to `stream` in this turn so far leaves now. */
export function writeNow(stream: Writable): void {
  if (corked.delete(stream)) stream.uncork();
}

function flush(): void {
  for (const stream of corked) stream.uncork();
  corked.clear();
}
