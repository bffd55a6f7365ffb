import type { Writable } from 'node:stream';

/** How many commands share a system call. With more, the server would wait for the last one before it could answer the first. */
const MAX_TOGETHER = 16;

/** A stream, and how many commands it keeps back while it is corked. */
interface Corked {
  readonly stream: Writable;
  commands: number;
}

const streams = new WeakMap<Writable, Corked>();
let corked: Corked[] = [];
let flushesAtExit = false;

/**
 * Sends the commands that are written to `stream` in this turn of the event loop in few system calls
 * (`npm run bench -- --only spread`).
 *
 * A process that exits in the same turn still sends them: a release is on its way when its call has settled.
 */
export function writeTogether(stream: Writable): void {
  const entry = entryOf(stream);
  if (entry.commands === MAX_TOGETHER) uncork(entry);
  if (entry.commands === 0) cork(entry);
  entry.commands += 1;
}

/** Sends the commands that were written to `stream` in this turn so far. */
export function writeNow(stream: Writable): void {
  uncork(entryOf(stream));
}

function entryOf(stream: Writable): Corked {
  let entry = streams.get(stream);
  if (!entry) {
    streams.set(stream, (entry = { stream, commands: 0 }));
    writeAsOneText(stream);
  }
  return entry;
}

/**
 * Makes `stream` pass the texts that it kept back to the socket as one. The socket would encode and list each of them by itself, which takes
 * a tenth of the client's CPU with 64 keys (`npm run bench -- --only spread`).
 */
function writeAsOneText(stream: Writable): void {
  const writeList = stream._writev?.bind(stream);
  if (!writeList) return;
  stream._writev = (chunks, done) => {
    const isText = chunks.every(({ chunk, encoding }) => typeof chunk === 'string' && encoding === 'utf8');
    if (!isText) return writeList(chunks, done);
    stream._write(chunks.map(({ chunk }) => chunk as string).join(''), 'utf8', done);
  };
}

function cork(entry: Corked): void {
  if (!flushesAtExit) process.once('exit', flush);
  flushesAtExit = true;
  if (corked.length === 0) process.nextTick(flush);
  corked.push(entry);
  entry.stream.cork();
}

function flush(): void {
  const all = corked;
  corked = [];
  all.forEach(uncork);
}

function uncork(entry: Corked): void {
  if (entry.commands === 0) return;
  entry.commands = 0;
  entry.stream.uncork();
}
