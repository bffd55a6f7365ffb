import { LockConfigurationError } from '../../port/lock.errors.js';
import { checkOptions } from '../../port/option-checks.js';
import { CALL_RULES, checkCallOptions } from './lock-options.js';

/**
 * Marks what the functions below return. JSON cannot contain a symbol, so a client that sends an object in place of a key cannot choose
 * a claim. All copies of this package in a process have the same symbol.
 */
const CLAIM: unique symbol = Symbol.for('nestjs-distributed-lock/key-claim');

/**
 * A key with a claim of its own, from `shared(…)`, `exclusive(…)` or `permits(…)`. The call acquires it by this claim, whatever `mode`,
 * `permits` and `weight` are in its options or in the defaults. All other options of the call apply. Frozen, so one may be used by many
 * calls.
 */
export interface KeyClaim<K extends string = string> {
  readonly [CLAIM]: true;
  /** The key; in `@Locked` a template. */
  readonly key: K;
  /** As in `CallOptions`, and so are `permits` and `weight`. */
  readonly mode?: 'exclusive' | 'shared';
  readonly permits?: number;
  readonly weight?: number;
}

/**
 * One key, or several that are held together. A key from `shared(…)`, `exclusive(…)` or `permits(…)` is held by that claim, the others as
 * the options of the call say.
 */
export type Keys = string | KeyClaim | readonly (string | KeyClaim)[];

/**
 * The key is held together with other readers, as with `mode: 'shared'`.
 *
 * @example
 * ```ts
 * await locks.withLock([shared('folder:1'), exclusive('file:9')], (lock) => console.log(lock.tokenOf('file:9')));
 * ```
 */
export function shared<const K extends string>(key: K): KeyClaim<K> {
  return Object.freeze({ [CLAIM]: true as const, key, mode: 'shared' as const });
}

/** The key is held alone, and has readers at other times, as with `mode: 'exclusive'`. */
export function exclusive<const K extends string>(key: K): KeyClaim<K> {
  return Object.freeze({ [CLAIM]: true as const, key, mode: 'exclusive' as const });
}

/**
 * The key is a semaphore, as with `permits: count`.
 *
 * @param count at most this many holders at a time, if each takes one permit
 * @param weight how many of the permits the call takes; default 1
 * @throws LockConfigurationError for a wrong number
 * @example
 * ```ts
 * await locks.withLock([permits('customer:7', 1), permits('exports', 10)], () => console.log('one of ten'));
 * ```
 */
export function permits<const K extends string>(key: K, count: number, weight = 1): KeyClaim<K> {
  if (count === undefined)
    throw new LockConfigurationError(
      `permits needs a key and the number of its permits: permits('bank', 3).`,
    );
  const rules = { count: CALL_RULES.acquire.permits, weight: CALL_RULES.acquire.weight };
  checkOptions('permits', { count, weight }, rules);
  checkCallOptions({ permits: count, weight });
  return Object.freeze({ [CLAIM]: true as const, key, permits: count, weight });
}

/** Whether the value comes from one of the functions above. */
export function isKeyClaim(value: unknown): value is KeyClaim {
  return typeof value === 'object' && value !== null && CLAIM in value;
}

/** Returns the same claim for another key. */
export function claimFor<K extends string>(claim: KeyClaim, key: K): KeyClaim<K> {
  return Object.freeze({ ...claim, key });
}

export function keyOf(item: string | KeyClaim): string {
  return isKeyClaim(item) ? item.key : item;
}

/** Replaces the claim of these options by that of a key, if the key has one. */
export function withClaimOf<O extends object>(
  options: O,
  { mode, permits: count, weight }: Partial<KeyClaim> = {},
): O {
  if (mode === undefined && count === undefined) return options;
  return { ...options, mode, permits: count, weight };
}
