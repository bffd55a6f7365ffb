import type { Readable } from 'node:stream';
import { isObservable } from 'rxjs';

/** A result that goes on producing after it was returned, by the way in which it is read. */
export type StreamKind =
  'readable' | 'file' | 'web stream' | 'response' | 'iterator' | 'iterable' | 'generator' | 'observable';

/** The parts of the results that are streams, as far as we use them. */
export interface Streams {
  readonly readable: Readable;
  /** `StreamableFile` of Nest, also of another copy of it. */
  readonly file: { getStream(): Readable };
  readonly 'web stream': ReadableStream<unknown>;
  readonly response: Response;
  /** Gives itself: to read it there is no other way than its own methods. */
  readonly iterator: AsyncIterator<unknown>;
  readonly iterable: AsyncIterable<unknown>;
  readonly generator: Iterator<unknown>;
}

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
  // A lazy query, for instance: it stands for what it resolves to.
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
