import type { Writable } from 'node:stream';

/** Few enough that the server answers the first while the next are still made, many enough to share a system call. */
const MOST_TOGETHER = 16;

/** What is held back, and of how many commands. */
const corked = new Map<Writable, number>();
let flushesAtExit = false;

/**
 * What is written to `stream` in this turn of the event loop leaves in few system calls, and the server reads it at once.
 *
 * A process that exits in the same turn still sends it: a release is on its way when its call has settled.
 */
export function writeTogether(stream: Writable): void {
  const count = corked.get(stream) ?? 0;
  if (count === 0) hold(stream);
  else if (count % MOST_TOGETHER === 0) {
    stream.uncork();
    stream.cork();
  }
  corked.set(stream, count + 1);
}

/** What was written to `stream` in this turn so far leaves now. */
export function writeNow(stream: Writable): void {
  if (corked.delete(stream)) stream.uncork();
}

function hold(stream: Writable): void {
  if (!flushesAtExit) process.once('exit', flush);
  flushesAtExit = true;
  if (corked.size === 0) process.nextTick(flush);
  stream.cork();
}

function flush(): void {
  for (const stream of corked.keys()) stream.uncork();
  corked.clear();
}
