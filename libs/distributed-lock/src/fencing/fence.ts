import { LockConfigurationError, LockError, LockNotHeldError } from '../port/lock.errors.js';
import { RULE } from '../port/option-checks.js';

/** A key and the fencing token under which it is held. A `Lock` of one key is a fence. */
export interface Fence {
  /** The key of the lock, without a prefix. */
  readonly key: string;
  /** The token of the grant, 1 or more. */
  readonly fencingToken: number;
  /** How many calls around this one share the lock, as in `Lock`. Required with `nested: 'refuse'`. */
  readonly depth?: number;
  /** How many calls share the lock now, as in `Lock`. Required with `nested: 'refuse'`. */
  readonly calls?: number;
}

/**
 * Whether a call that shares its lock with another call may write. A nested call has the same fencing token as the call around
 * it, so tokens cannot order their writes. `'refuse'`: only a call that has the lock to itself may write.
 */
export type NestedWrites = 'allow' | 'refuse';

/**
 * Remembers the largest fencing token that was seen for each key.
 *
 * An abstract class, so that it can be a token of Nest: `{ provide: FenceMemory, useValue: fencedRedis(client) }`.
 */
export abstract class FenceMemory {
  /**
   * Remembers `token` if it is the largest so far.
   *
   * @returns the largest token seen, `token` included
   */
  abstract raise(key: string, token: number): number | Promise<number>;
}

/** @throws LockConfigurationError for a value that cannot be a lock's token, such as `undefined` in JavaScript */
export function assertToken(token: unknown): void {
  if (Number.isSafeInteger(token) && (token as number) >= 1) return;
  throw new LockConfigurationError(
    `A fencing token is a whole number from 1 on; this one is ${String(token)}.`,
  );
}

export const NESTED_WRITES = RULE.oneOf('allow', 'refuse');

/**
 * With `nested: 'refuse'`, checks that no other call shares the lock.
 *
 * @throws LockNotHeldError when another call shares it
 * @throws LockConfigurationError for a fence without `depth` and `calls`
 */
export function assertAlone(
  { key, depth, calls }: Pick<Fence, 'key' | 'depth' | 'calls'>,
  nested: NestedWrites | undefined,
): void {
  if (nested !== 'refuse') return;
  if (depth === undefined || calls === undefined) {
    throw new LockConfigurationError(
      `nested: 'refuse' needs the Lock of "${key}" itself: a key and a token do not tell whether a nested call writes.`,
    );
  }
  if (depth === 0 && calls === 1) return;
  const what =
    depth > 0 ? 'it shares the lock of the call around it' : `nested calls share it (${calls - 1})`;
  throw new LockNotHeldError(
    `"${key}" is not held by this call alone: ${what}, and nested is 'refuse'. Nothing was written. Write when the other call has ended, or give this one a lock of its own. If neither call made the other, a shared queue or pool has started one in the async context of the other.`,
    key,
  );
}

/** @throws StaleTokenError when `seen` is larger than the token of the fence */
export function assertFresh(fence: Fence, seen: number): void {
  if (seen > fence.fencingToken) throw new StaleTokenError(fence.key, fence.fencingToken, seen);
}

/**
 * The write was refused, because the resource has seen a larger fencing token. The holder with this token has lost its lock, and
 * may not know it yet. Nothing was written.
 *
 * Its code is `LOCK_LOST`, so that filters and callers treat it like any other lost lock. Only this error has `tokenSeen`, by
 * which it can be recognised even between two builds of this package.
 */
export class StaleTokenError extends LockError {
  readonly code = 'LOCK_LOST';

  constructor(
    key: string,
    /** The token of the refused write. */
    readonly tokenOffered: number,
    /** The larger token that the resource has seen. */
    readonly tokenSeen: number,
  ) {
    super(
      `Refused a write under "${key}" with token ${tokenOffered}: token ${tokenSeen} has been seen, so the lock was lost and another owner had it since. Nothing was written; acquire the lock again and start from reading.`,
      key,
    );
  }
}
