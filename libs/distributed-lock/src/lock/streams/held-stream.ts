import { inBackground } from '../../async-context/in-background.js';
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
  const kind = liveKindOf(value);
  if (!kind) return undefined;
  assertHoldable(value, options);
  return adapterOf(kind).hold?.(value, new StreamHold(lock, options));
}

/** @throws LockConfigurationError for a stream whose end cannot be followed */
export function assertHoldable(value: unknown, { where, readBy }: StreamOrigin): void {
  const kind = liveKindOf(value);
  const refusal = kind && refusalOf(value, kind, readBy);
  if (!refusal) return;
  discardStream(value);
  throw new LockConfigurationError(`${where} ${refusal}`);
}

/** `undefined` for a result that is complete, or a stream that is over. */
function liveKindOf(value: unknown): StreamKind | undefined {
  const kind = streamKindOf(value);
  return kind && !adapterOf(kind).isOver?.(value) ? kind : undefined;
}

/** What we do with a stream of each kind. One without `hold` is refused before. */
const ADAPTERS: { readonly [K in StreamKind]: Adapter<Streams[K]> } = {
  readable: { isOver: isRead, close: (stream) => stream.destroy(), hold: heldReadable },
  file: {
    isOver: (file) => isRead(file.getStream()),
    close: (file) => file.getStream().destroy(),
    hold: (file, hold) => ({ ...heldReadable(file.getStream(), hold), value: file }),
  },
  'web stream': { close: (stream) => stream.cancel(), hold: heldWebStream },
  response: {
    isOver: ({ body, bodyUsed }) => !body || bodyUsed,
    close: ({ body }) => close(body),
    hold: heldResponse,
  },
  iterator: { close: (iterator) => iterator.return?.(), hold: heldIterator },
  iterable: { hold: heldIterable },
  generator: { close: (generator) => generator.return?.() },
  observable: {},
};

interface Adapter<S> {
  /** True for a stream that has ended, or that the method itself has read. */
  isOver?(stream: S): boolean;
  close?(stream: S): unknown;
  hold?(stream: S, hold: StreamHold): HeldStream;
}

function adapterOf(kind: StreamKind): Adapter<unknown> {
  return ADAPTERS[kind] as Adapter<unknown>;
}

function isRead(stream: Streams['readable']): boolean {
  return stream.closed || stream.readableEnded;
}

/** Closes a stream that nobody is going to read. Does nothing with other results. */
export function discardStream(value: unknown): void {
  // An error of closing would be for the reader, and there is none.
  inBackground(close(value), () => undefined);
}

async function close(value: unknown): Promise<void> {
  const kind = streamKindOf(value);
  if (kind) await adapterOf(kind).close?.(value);
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
