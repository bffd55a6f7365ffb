import type { Readable } from 'node:stream';
import { discardStream } from './discard-stream.js';
import type { HeldLock } from '../context/held-lock.js';
import { heldIterable } from './held-iterable.js';
import { HeldIterator } from './held-iterator.js';
import { holdReadable } from './held-readable.js';
import { heldResponse } from './held-response.js';
import { heldWebStream } from './held-web-stream.js';
import { LockConfigurationError } from '../../port/lock.errors.js';
import { StreamHold, type StreamHoldOptions } from './stream-hold.js';
import { streamKindOf, type StreamKind, type Streams } from './streams.js';

/** Nest reads a stream in one way only, or does not read streams at all. Callers may do as they like. */
export type StreamReader = 'caller' | 'nest' | 'nobody';

export interface StreamOrigin {
  /** What has returned the stream, for messages: `Orders.rows`. */
  readonly where: string;
  readonly readBy: StreamReader;
}

/** A stream that holds a lock until it has ended. */
export interface HeldStream {
  /** To be read in place of the stream; the same object where that is possible. */
  readonly value: unknown;
  /** Ends it for a reader that does not read on. */
  stop(): void;
}

/**
 * Lets a result that goes on producing hold the lock until it has ended, failed, or was returned or cancelled early. If
 * its reader is dropped before, the garbage collector ends it.
 *
 * @returns `undefined` for a result that is complete: it holds nothing
 * @throws LockConfigurationError for a stream whose end cannot be followed
 */
export function holdStream(
  value: unknown,
  lock: HeldLock,
  options: StreamHoldOptions & StreamOrigin,
): HeldStream | undefined {
  const kind = streamKindOf(value);
  if (!kind || isOver(value, kind)) return undefined;
  assertHoldable(value, options);
  if (kind === 'observable' || kind === 'generator') return undefined;
  return HOLDERS[kind](value as never, new StreamHold(lock, options));
}

/** @throws LockConfigurationError for a stream whose end cannot be followed */
export function assertHoldable(value: unknown, { where, readBy }: StreamOrigin): void {
  const kind = streamKindOf(value);
  const refusal = kind && !isOver(value, kind) && refusalOf(value, kind, readBy);
  if (!refusal) return;
  discardStream(value);
  throw new LockConfigurationError(`${where} ${refusal}`);
}

type HeldKind = Exclude<StreamKind, 'observable' | 'generator'>;

const HOLDERS: { readonly [K in HeldKind]: (value: Streams[K], hold: StreamHold) => HeldStream } = {
  iterator: (iterator, hold) => {
    const reader = HeldIterator.of(iterator, hold);
    return { value: reader, stop: () => reader.stop() };
  },
  iterable: (iterable, hold) => {
    const [held, reader] = heldIterable(iterable, hold);
    return { value: held, stop: () => reader.stop() };
  },
  'web stream': (stream, hold) => {
    const [held, source] = heldWebStream(stream, hold);
    return { value: held, stop: () => source.stop() };
  },
  response: (response, hold) => {
    const body = response.body as ReadableStream<Uint8Array> | Readable;
    // The Response of node-fetch has a stream of Node there, and reads it itself.
    if (!('getReader' in body)) return { value: response, stop: holdReadable(body, hold) };
    const [held, source] = heldWebStream(body, hold);
    return { value: heldResponse(response, held), stop: () => source.stop() };
  },
  readable: (stream, hold) => ({ value: stream, stop: holdReadable(stream, hold) }),
  file: (file, hold) => ({ value: file, stop: holdReadable(file.getStream(), hold) }),
};

/** Nothing comes any more, or it was read by the method itself. */
function isOver(value: unknown, kind: StreamKind): boolean {
  const stream = kind === 'file' ? (value as Streams['file']).getStream() : (value as Streams['readable']);
  if (kind === 'file' || kind === 'readable') return stream.closed || stream.readableEnded;
  const { body, bodyUsed } = value as Streams['response'];
  return kind === 'response' && (!body || bodyUsed);
}

/** Why it cannot be held; `undefined` if it can. */
function refusalOf(value: unknown, kind: StreamKind, readBy: StreamReader): string | undefined {
  const source = kind === 'response' ? (value as Streams['response']).body : value;
  if ((source as Partial<ReadableStream>).locked === true) {
    return 'returned a stream that is being read already, so the lock cannot follow it to its end: return it unread.';
  }
  if (kind === 'generator') {
    return 'returned a generator, which would go on after the release: make it an async generator, or return an array.';
  }
  if (readBy === 'nobody' && kind !== 'observable') {
    return 'returned a stream, which Nest does not send over this transport: return an Observable.';
  }
  if (readBy !== 'caller') return undefined;
  if (kind === 'observable') {
    return 'returned an Observable, which would outlive its lock: use @Locked(…, { stream: true }).';
  }
  return kind === 'iterable'
    ? `returned an async iterable (${nameOf(value)}) that can be read in ways which the lock cannot follow: make the method an async generator, and yield* it.`
    : undefined;
}

function nameOf(value: unknown): string {
  return (value as Partial<object>).constructor?.name ?? 'Object';
}
