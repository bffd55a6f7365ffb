import { StaleTokenError } from './stale-token.error.js';

/** A key and the fencing token under which it is held: a `Lock` of one key is one. */
export interface Fence {
  readonly key: string;
  readonly fencingToken: number;
}

/**
 * Remembers the largest token that was seen of each key.
 *
 * It is a class so that Nest can be given one: `{ provide: FenceMemory, useValue: fencedRedis(client) }`.
 */
export abstract class FenceMemory {
  /** Remembers `token`, unless it has seen a larger one. @returns the largest seen, `token` included */
  abstract raise(key: string, token: number): number | Promise<number>;
}

/** @throws StaleTokenError when `seen` is larger than the token of `fence` */
export function assertFresh(fence: Fence, seen: number): void {
  if (seen > fence.fencingToken) throw new StaleTokenError(fence.key, fence.fencingToken, seen);
}
