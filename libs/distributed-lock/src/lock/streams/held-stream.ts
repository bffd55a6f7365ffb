import { errorMonitor } from 'node:events';
import type { Readable } from 'node:stream';
import type { UnderlyingByteSource } from 'node:stream/web';
import { isObservable, type Observable } from 'rxjs';
import { ignoreFailure } from '../../common/promises.js';
import { LockConfigurationError } from '../../port/lock.errors.js';
import type { HeldLock } from '../core/held-lock.js';
import {
  HeldSource,
  type HeldStream,
  type StepSource,
  StreamHold,
  type StreamHoldOptions,
} from './held-source.js';

/**
 * If the result is a stream, makes it hold the lock until it has ended or failed, or its reader has returned or cancelled it early. If
 * the reader was dropped, the garbage collector ends the stream.
 *
 * @returns `undefined` for a result that is complete, which needs no lock any more
 * @throws LockConfigurationError for a stream whose end cannot be followed
 */
export function holdStream(
  value: unknown,
  lock: HeldLock,
  options: StreamHoldOptions,
): HeldStream | undefined {
  const kind = liveKindOf(value);
  if (!kind) return undefined;
  assertHoldable(value, options);
  return adapterOf(kind).hold?.(value, new StreamHold(lock, options));
}

/** @throws LockConfigurationError for a stream whose end cannot be followed */
export function assertHoldable(
  value: unknown,
  { where, readBy }: Pick<StreamHoldOptions, 'where' | 'readBy'>,
): void {
  const kind = liveKindOf(value);
  const refusal = kind && refusalOf(value, kind, readBy);
  if (!refusal) return;
  discardStream(value);
  throw new LockConfigurationError(`${where} ${refusal}`);
}

/** The kind of a stream that still produces; `undefined` for a complete result, and for a stream that is over. */
function liveKindOf(value: unknown): StreamKind | undefined {
  const kind = streamKindOf(value);
  return kind && !adapterOf(kind).isOver?.(value) ? kind : undefined;
}

/** How to handle each kind of stream. `assertHoldable` refuses a stream of a kind without `hold` before `hold` is needed. */
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
  /** Whether the stream has ended, or the method has read it itself. */
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
  // Ignore an error of closing: it would be for the reader, but there is none.
  ignoreFailure(close(value));
}

async function close(value: unknown): Promise<void> {
  const kind = streamKindOf(value);
  if (kind) await adapterOf(kind).close?.(value);
}

/** Why the lock cannot be held for this stream; `undefined` if it can. */
function refusalOf(
  value: unknown,
  kind: StreamKind,
  readBy: StreamHoldOptions['readBy'],
): string | undefined {
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

/** The type of each kind of stream, with only the members that we use. */
interface Streams {
  readonly readable: Readable;
  /** `StreamableFile` of any copy of Nest. */
  readonly file: { getStream(): Readable };
  readonly 'web stream': ReadableStream<unknown>;
  readonly response: Response;
  /**
   * An async iterator whose `Symbol.asyncIterator` returns the iterator itself, so that wrapping its own methods is enough to follow all of
   * its readers.
   */
  readonly iterator: AsyncIterator<unknown>;
  readonly iterable: AsyncIterable<unknown>;
  readonly generator: Iterator<unknown>;
  readonly observable: Observable<unknown>;
}

/** The kinds of results that go on producing after they were returned. Each kind is read in another way. */
type StreamKind = keyof Streams;

type Members = Readonly<Record<string | symbol, unknown>>;

/** The kind of a stream; `undefined` for a result that is complete. */
export function streamKindOf(value: unknown): StreamKind | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const it = value as Members;
  if (isObservable(value)) return 'observable';
  if (has(it, Symbol.asyncIterator)) return iterableKindOf(it);
  if (has(it, 'getStream') && has(it, 'getHeaders')) return 'file';
  switch (Object.prototype.toString.call(value)) {
    case '[object Response]':
      return streamKindOf(it['body']) && 'response';
    case '[object Generator]':
    case '[object Iterator Helper]':
      return 'generator';
    default:
      return undefined;
  }
}

function iterableKindOf(it: Members): StreamKind | undefined {
  // If a method returns an object with `then`, such as a lazy query, its caller awaits it and gets no stream.
  if (has(it, 'then')) return undefined;
  if (has(it, 'getReader')) return 'web stream';
  if (has(it, 'on') && has(it, '_read')) return 'readable';
  return has(it, 'next') &&
    (it as unknown as AsyncIterable<unknown>)[Symbol.asyncIterator]() === (it as unknown)
    ? 'iterator'
    : 'iterable';
}

function has(it: Members, name: string | symbol): boolean {
  return typeof it[name] === 'function';
}

/** Wraps a web stream: the same chunks and the same type, but each chunk is read under the lock. */
function heldWebStream<T>(stream: ReadableStream<T>, hold: StreamHold): HeldStream<ReadableStream<T>> {
  const type = isOfBytes(stream) ? 'bytes' : undefined;
  const reader = stream.getReader();
  const steps = {
    next: () => reader.read() as Promise<IteratorResult<unknown>>,
    return: (reason: unknown) =>
      reader.cancel(reason).then(() => ({ done: true, value: undefined }) as const),
  };
  const source = new HeldSource(steps, hold);
  const pull = async (controller: ReadableByteStreamController): Promise<void> => {
    const { done, value } = await source.next();
    if (!done) return controller.enqueue(value as NodeJS.ArrayBufferView);
    controller.close();
    controller.byobRequest?.respond(0);
  };
  const cancel = (reason: unknown): Promise<unknown> => source.return(reason);
  // Read nothing ahead, so that the lock is held only for what the reader asks for.
  const held = new ReadableStream({ type, pull, cancel } as unknown as UnderlyingByteSource, {
    highWaterMark: 0,
  });
  hold.stopWithReader(held, source);
  return { value: held as unknown as ReadableStream<T>, stop: () => source.stop() };
}

/**
 * Wraps the body of a web `Response`. A `Response` of node-fetch has a Node stream as its body and reads it by itself, so that stream is
 * wrapped in place.
 */
function heldResponse(response: Response, hold: StreamHold): HeldStream {
  const body = response.body as ReadableStream<Uint8Array> | Readable;
  if (!('getReader' in body)) return { ...heldReadable(body, hold), value: response };
  const held = heldWebStream(body, hold);
  return { ...held, value: withBody(response, held.value) };
}

function isOfBytes(stream: ReadableStream<unknown>): boolean {
  try {
    (stream as ReadableStream<Uint8Array>).getReader({ mode: 'byob' }).releaseLock();
    return true;
  } catch {
    return false;
  }
}

/** The same response with another body. Its clones get that body, too. */
function withBody(original: Response, body: ReadableStream | null): Response {
  const held = new Response(body, original);
  const clone = held.clone.bind(held);
  const { type, url, redirected } = original;
  return Object.defineProperties(held, {
    type: { value: type },
    url: { value: url },
    redirected: { value: redirected },
    clone: { value: () => withBody(original, clone().body) },
  });
}

/** Makes a Node stream produce its data under its lock and release the lock at its end, whichever way it is read. */
function heldReadable(stream: Readable, hold: StreamHold): HeldStream {
  const { _read, _destroy } = stream as Own;
  const end = endOf(hold);
  Object.assign(stream, {
    _read: (size) => hold.enter(() => Reflect.apply(_read, stream, [size])),
    _destroy: (error, done) => {
      const destroyed = (failure?: Error | null): void => {
        done(failure);
        // End here, too: a stream that was created with `emitClose: false` emits no 'close'.
        end();
      };
      hold.enter(() => Reflect.apply(_destroy, stream, [error, destroyed]));
    },
  } satisfies Own);
  stream.once('close', end);
  // Ends the hold after 'end' and 'error', too: a stream that was created with `autoDestroy: false` then emits no 'close'.
  const endUnlessDestroyed = (): void => {
    setImmediate(() => stream.destroyed || end());
  };
  stream.once('end', endUnlessDestroyed);
  stream.once(errorMonitor, endUnlessDestroyed);
  hold.onLoss(destroyerOf(new WeakRef(stream)));
  hold.stopWithReader(stream, { stop: end });
  const stop = (): void => {
    stream.destroy();
  };
  return { value: stream, stop };
}

type Own = Pick<Readable, '_read' | '_destroy'>;

// `endOf` and `destroyerOf` are functions outside of `heldReadable`: a closure inside of it would refer to `stream` and keep it in memory.

function endOf(hold: StreamHold): () => void {
  return () => hold.end();
}

function destroyerOf(ref: WeakRef<Readable>): (error: unknown) => void {
  return (error) => {
    const stream = ref.deref();
    // Destroy with the error, so that a reader gets it even if it begins to read after the loss. The listener that ignores it is needed
    // because an 'error' event that nobody listens to ends the process.
    stream?.once('error', () => undefined).destroy(error as Error);
  };
}

/** Reads an async generator, or any other async iterator, under its lock. */
class HeldIterator implements AsyncIterableIterator<unknown, unknown> {
  readonly #source: HeldSource;

  constructor(iterator: StepSource, hold: StreamHold) {
    this.#source = new HeldSource(iterator, hold);
    hold.stopWithReader(this, this.#source);
  }

  next(...args: readonly unknown[]): Promise<IteratorResult<unknown, unknown>> {
    return this.#source.next(...args);
  }

  return(value?: unknown): Promise<IteratorResult<unknown, unknown>> {
    return this.#source.return(value);
  }

  throw(error?: unknown): Promise<IteratorResult<unknown, unknown>> {
    return this.#source.throw(error);
  }

  stop(): void {
    this.#source.stop();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }
}

/**
 * Wraps an iterable object in a Proxy: it has the same members, but its iteration runs under the lock. It can be iterated only once,
 * because the lock is released at the end of that iteration.
 */
function heldIterable<T extends AsyncIterable<unknown>>(iterable: T, hold: StreamHold): HeldStream<T> {
  const reader = new HeldIterator(stepsOf(iterable), hold);
  const value = new Proxy(iterable, {
    get(target, name) {
      if (name === Symbol.asyncIterator) return () => reader;
      const member: unknown = Reflect.get(target, name, target);
      // Bind methods to the object itself: called on the Proxy, they could not read their private fields.
      return typeof member === 'function' ? (member.bind(target) as unknown) : member;
    },
  });
  return { value, stop: () => reader.stop() };
}

function heldIterator(iterator: AsyncIterator<unknown>, hold: StreamHold): HeldStream {
  const value = new HeldIterator(iterator as StepSource, hold);
  return { value, stop: () => value.stop() };
}

/** Returns the steps of an iterable. Opens its iterator only at the first step, because opening may be costly. */
function stepsOf(iterable: AsyncIterable<unknown>): StepSource {
  let opened: AsyncIterator<unknown> | undefined;
  return {
    next: (...args) => (opened ??= iterable[Symbol.asyncIterator]()).next(...(args as [])),
    return: async (value) => (await opened?.return?.(value)) ?? { done: true, value },
  };
}
