import { LockConfigurationError } from '../port/lock.errors.js';
import { StaleTokenError } from './stale-token.error.js';

/** A key and the fencing token under which it is held. A `Lock` of one key is a fence. */
export interface Fence {
  /** The key of the lock, without a prefix. */
  readonly key: string;
  /** The token of the grant, 1 or more. */
  readonly fencingToken: number;
}

/**
 * Remembers the largest token that was seen of each key.
 *
 * A class, so that it can be a provider of Nest: `{ provide: FenceMemory, useValue: fencedRedis(client) }`.
 */
export abstract class FenceMemory {
  /** Remembers `token`, if it is the largest so far. @returns the largest seen, `token` included */
  abstract raise(key: string, token: number): number | Promise<number>;
}

/** @throws LockConfigurationError for a token that no lock has given, such as `undefined` in JavaScript */
export function assertToken(token: unknown): void {
  if (Number.isSafeInteger(token) && (token as number) >= 1) return;
  throw new LockConfigurationError(
    `A fencing token is a whole number from 1 on; this one is ${String(token)}.`,
  );
}

/** @throws StaleTokenError when `seen` is larger than the token of `fence` */
export function assertFresh(fence: Fence, seen: number): void {
  if (seen > fence.fencingToken) throw new StaleTokenError(fence.key, fence.fencingToken, seen);
}
