import type { LockMode } from '../port/claim.js';

/** One key, or several that are held together. */
export type Keys = string | readonly string[];

/**
 * A lock that you hold. Only this object can give it back.
 *
 * A nested call for a key that the same async flow already holds gets a `Lock` of its own: its `release()` ends that
 * call's share only, and the lock goes back to the store with the last share.
 */
export interface Lock extends AsyncDisposable {
  /** The key; of several, the first as given. */
  readonly key: string;
  readonly keys: readonly string[];
  /** `exclusive` also where no mode was given; it becomes `shared` by `downgrade()`. */
  readonly mode: LockMode;
  /**
   * Aborts with a `LockLostError` as soon as the lease is known to be over before the release; never otherwise. Each
   * listener runs in the async context in which it was added.
   */
  readonly signal: AbortSignal;
  /**
   * Aborts with a `LockShutdownError` when the application begins to close while the lock is held: the work has
   * `shutdownGraceMs` to end, then the lock is taken from it and `signal` aborts, too. For loops that run for long.
   */
  readonly shutdownSignal: AbortSignal;
  /** How much longer the lease may be believed in, in ms, computed at each use; 0 once released or lost. */
  readonly validForMs: number;
  /**
   * Larger than every token of this key that an earlier grant gave out; readers that hold together, and holders of
   * permits, are ordered only against those who could not hold with them. Hand it to what you write to, and let that refuse smaller ones.
   *
   * @throws LockConfigurationError for several keys: use `tokenOf(key)`
   */
  readonly fencingToken: number;
  /** @throws LockNotHeldError if `key` is not one of this lock's */
  tokenOf(key: string): number;
  /** @throws LockLostError when lost, LockNotHeldError when released */
  assertHeld(): void;
  /**
   * Lets the lease run for `ms` from now. Only for locks with a `leaseMs`; the watchdog cares for the others.
   *
   * @throws LockNotHeldError or LockLostError when it is gone, LockStoreError when the store does not answer,
   * LockConfigurationError under the watchdog
   */
  extend(ms: number): Promise<void>;
  /**
   * Turns an exclusive lock into a shared one without a gap; readers in line enter at once. For all who share this
   * lock in this flow.
   *
   * @throws LockNotHeldError or LockLostError when it is gone, LockStoreError when the store does not answer,
   * LockConfigurationError for a lock of permits
   */
  downgrade(): Promise<void>;
  /** Runs `work` so that nested calls for these keys find them held. */
  run<T>(work: () => T | Promise<T>): Promise<T>;
  /**
   * Gives it back. Idempotent, never rejects. Resolves when the store has confirmed it, or cannot any more.
   *
   * `lost`: the lease had ended before. `unknown`: the store did not answer until the lease was over.
   */
  release(): Promise<'released' | 'lost' | 'unknown'>;
}

/** How one call acquires. Defaults come from the module's options. */
export interface CallOptions {
  /**
   * Longest time in line, in ms; 0 asks once, `Infinity` waits for ever. However short it is, the store's first answer
   * counts.
   */
  readonly waitMs?: number;
  /** A fixed lease in ms that nothing renews. Without it the watchdog renews until release. */
  readonly leaseMs?: number;
  /**
   * `shared`: together with other readers; a writer in line is not overtaken by later ones. `exclusive`: alone, as
   * without a mode; name it where readers exist, so that Redisson's RReadWriteLock takes part.
   */
  readonly mode?: 'exclusive' | 'shared';
  /** At most this many at once instead of one (a semaphore). Each call counts by its own number, so that it may change. */
  readonly permits?: number;
  /** How many of the `permits` this call takes; default 1. */
  readonly weight?: number;
  /** Strictly in order of asking, across processes: no local hand-off. */
  readonly fair?: boolean;
  /**
   * Keeps the key taken for this many ms from the acquisition, even if it is released sooner: the call returns at once,
   * and the rest of the time is a lease that runs out by itself. For jobs that instances with skewed clocks start a
   * moment apart. At most `leaseMs`, where that is given.
   */
  readonly holdAtLeastMs?: number;
  /** Leaves the line when it aborts; the call then rejects with `signal.reason`. Does not end a lock already held. */
  readonly signal?: AbortSignal;
}

export interface WithLockOptions extends CallOptions {
  /** What a call whose work succeeded although the lock was lost on the way does: reject with `LockLostError` (default), or keep the result. */
  readonly onLost?: 'throw' | 'ignore';
}
