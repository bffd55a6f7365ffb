import type { Readable } from 'node:stream';
import { isObservable, type Observable } from 'rxjs';

/** The members of each kind of stream that we use. */
export interface Streams {
  readonly readable: Readable;
  /** `StreamableFile` of any copy of Nest. */
  readonly file: { getStream(): Readable };
  readonly 'web stream': ReadableStream<unknown>;
  readonly response: Response;
  /** An iterator whose `Symbol.asyncIterator` returns itself, so that it can be read by its own methods only. */
  readonly iterator: AsyncIterator<unknown>;
  readonly iterable: AsyncIterable<unknown>;
  readonly generator: Iterator<unknown>;
  readonly observable: Observable<unknown>;
}

/** The kinds of results that go on producing after they were returned, by the way in which they are read. */
export type StreamKind = keyof Streams;

type Members = Readonly<Record<string | symbol, unknown>>;

/** `undefined` for a result that is complete. */
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
  // A call awaits an object with `then`, such as a lazy query.
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
