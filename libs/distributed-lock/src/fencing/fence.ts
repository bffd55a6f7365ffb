import { LockConfigurationError, LockError, LockNotHeldError } from '../port/lock.errors.js';
import { oneOf } from '../port/option-checks.js';

/** A key and the fencing token under which it is held. A `Lock` of one key is a fence. */
export interface Fence {
  /** The key of the lock, without a prefix. */
  readonly key: string;
  /** The token of the grant, 1 or more. */
  readonly fencingToken: number;
  /** As in `Lock`. Needed for `nested: 'refuse'`. */
  readonly depth?: number;
  /** As in `Lock`. Needed for `nested: 'refuse'`. */
  readonly calls?: number;
}

/**
 * Whether calls that share a lock may write. Nested calls have the fencing token of the call around them, so tokens cannot tell
 * them apart. `'refuse'`: only a call that has the lock alone may write.
 */
export type NestedWrites = 'allow' | 'refuse';

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

export const NESTED_WRITES = oneOf('allow', 'refuse');

/**
 * @throws LockNotHeldError when the call shares its lock with another call, if `nested` is `'refuse'`; LockConfigurationError for
 * a fence that does not say so
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

/** @throws StaleTokenError when `seen` is larger than the token of `fence` */
export function assertFresh(fence: Fence, seen: number): void {
  if (seen > fence.fencingToken) throw new StaleTokenError(fence.key, fence.fencingToken, seen);
}

/**
 * The guarded resource has seen a larger fencing token: the holder with this token has lost its lock, and may not know it yet.
 * Nothing was written.
 *
 * Its code is `LOCK_LOST`, so that filters and callers treat it as any other loss. `tokenSeen` distinguishes it from those, even
 * between two builds of this package.
 */
export class StaleTokenError extends LockError {
  readonly code = 'LOCK_LOST';

  constructor(
    key: string,
    /** The token of the refused write. */
    readonly tokenOffered: number,
    /** The larger one, which the resource has seen. */
    readonly tokenSeen: number,
  ) {
    super(
      `Refused a write under "${key}" with token ${tokenOffered}: token ${tokenSeen} has been seen, so the lock was lost and another owner had it since. Nothing was written; acquire the lock again and start from reading.`,
      key,
    );
  }
}
