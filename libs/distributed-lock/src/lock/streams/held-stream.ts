import { discardStream } from './discard-stream.js';
import type { HeldLock } from '../core/held-lock.js';
import { heldIterable, heldIterator } from './held-iterable.js';
import { heldReadable } from './held-readable.js';
import { heldResponse, heldWebStream } from './held-web-stream.js';
import { LockConfigurationError } from '../../port/lock.errors.js';
import { StreamHold, type HeldStream, type StreamHoldOptions } from './stream-hold.js';
import { streamKindOf, type StreamKind, type Streams } from './streams.js';

/** Nest reads a stream in one way only, or over some transports not at all. Callers may read it in any way. */
type StreamReader = 'caller' | 'nest' | 'nobody';

export interface StreamOrigin {
  /** The method that has returned the stream, for messages: `Orders.rows`. */
  readonly where: string;
  readonly readBy: StreamReader;
}

/**
 * Lets a result that goes on producing hold the lock until it has ended, failed, or was returned or cancelled early. The
 * garbage collector ends a stream whose reader was dropped.
 *
 * @returns `undefined` for a result that is complete, which holds nothing
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
  iterator: heldIterator,
  iterable: heldIterable,
  'web stream': heldWebStream,
  response: heldResponse,
  readable: heldReadable,
  file: (file, hold) => ({ ...heldReadable(file.getStream(), hold), value: file }),
};

/** True for a stream that has ended, or that the method itself has read. */
function isOver(value: unknown, kind: StreamKind): boolean {
  const stream = kind === 'file' ? (value as Streams['file']).getStream() : (value as Streams['readable']);
  if (kind === 'file' || kind === 'readable') return stream.closed || stream.readableEnded;
  const { body, bodyUsed } = value as Streams['response'];
  return kind === 'response' && (!body || bodyUsed);
}

/** The reason why the lock cannot be held for this stream; `undefined` if it can. */
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
    return 'returned an Observable, which would outlive its lock: use @Locked(…, { stream: true }), or await lastValueFrom(…).';
  }
  return kind === 'iterable'
    ? `returned an async iterable (${nameOf(value)}) that can be read in ways which the lock cannot follow: make the method an async generator, and yield* it.`
    : undefined;
}

function nameOf(value: unknown): string {
  return (value as Partial<object>).constructor?.name ?? 'Object';
}
