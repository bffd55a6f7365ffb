import type { LockHolder, LockMode, LockSnapshot, UnreadableKey } from '../port/lock-store.js';

/**
 * A lock that you hold. Only this object can release it: by `release()`, or by `await using lock = …` at the end of the block.
 *
 * A nested call for a key that the same async flow already holds gets a `Lock` of its own, with a larger `depth`. Its `release()`
 * ends the share of that call, and the last share releases the lock.
 */
export interface Lock extends AsyncDisposable {
  /** The key; of several, the first one given. */
  readonly key: string;
  /** All keys, in the order in which they were given. */
  readonly keys: readonly string[];
  /** `'exclusive'`, `'shared'` or `'permits'`; `exclusive` also where no mode was given. `downgrade()` makes it `shared`. */
  readonly mode: LockMode;
  /**
   * Aborts with a `LockLostError` when the lock is lost before its release, or when another call takes it over and the grace
   * begins. Each listener runs in the async context in which it was added.
   */
  readonly signal: AbortSignal;
  /**
   * Aborts with a `LockShutdownError` when the application begins to close while the lock is held. The work then has
   * `shutdownGraceMs` to end, before the lock is released under it and `signal` aborts, too. For long loops.
   */
  readonly shutdownSignal: AbortSignal;
  /**
   * True while others wait for a lock that is held, as far as this process knows: its own callers at once, those of other
   * processes when a notification tells of them, at the latest by the next renewal. For long work, to release early and ask
   * again. Asks no store.
   */
  readonly contended: boolean;
  /** Validity of the lease that is left, in ms, computed at each use; 0 once released or lost. */
  readonly validForMs: number;
  /**
   * 0 for the call that has acquired the lock, 1 for a call inside it that shares the lock, and so on; of several keys the
   * largest. All of them have one `fencingToken`, so this tells a nested call from the outermost one.
   */
  readonly depth: number;
  /** How many calls share the lock now: the one that has acquired it, and nested ones that have not ended; of several keys the most. */
  readonly calls: number;
  /**
   * Larger than every token of an earlier grant of this key. Tokens of locks that may be held at the same time, shared or
   * with permits, are in no order. Pass it to the resource that you write to, and let that refuse smaller ones.
   *
   * @throws LockConfigurationError for several keys: use `tokenOf(key)`
   */
  readonly fencingToken: number;
  /** The fencing token of one key. @throws LockNotHeldError if `key` is not one of this lock's keys */
  tokenOf(key: string): number;
  /**
   * Throws unless the lock is held and its lease is valid. Asks no store.
   *
   * @throws LockLostError when the lock is lost
   * @throws LockNotHeldError when it was released
   */
  assertHeld(): void;
  /**
   * Sets the end of the lease to `ms` from now. Only for locks with a `leaseMs`. The watchdog renews the others.
   *
   * @throws LockNotHeldError or LockLostError when it is not held, LockStoreError when the store does not answer,
   * LockConfigurationError under the watchdog
   */
  extend(ms: number): Promise<void>;
  /**
   * Turns an exclusive lock into a shared one without a gap, also for nested calls that share it. Waiting readers are
   * granted the lock at once.
   *
   * @throws LockNotHeldError or LockLostError when it is not held, LockStoreError when the store does not answer,
   * LockConfigurationError for a lock of permits
   */
  downgrade(): Promise<void>;
  /**
   * Runs `work` in an async flow that holds these keys, so that nested calls share them. Does not release. Settles as `work`
   * does.
   */
  run<T>(work: () => T | Promise<T>): Promise<T>;
  /**
   * Releases this share of the lock. Idempotent, never rejects. Resolves after a local hand-off, when the store has confirmed
   * the release, or when the store can no longer do so because the lease is over.
   *
   * `lost`: the lease had ended before. `unknown`: the store did not answer until the lease was over.
   */
  release(): Promise<'released' | 'lost' | 'unknown'>;
}

/** The state of a key in the store, and who holds it. */
export interface LockInspection extends LockSnapshot {
  /** The holders, in the order of `holders`, with what is known about each. */
  readonly heldBy: readonly LockHolder[];
  /** The owners in `pending`, in their order, with the process of each of the first 20 as far as it is known. */
  readonly waiters: readonly LockHolder[];
  /**
   * How long ago its lease was last renewed, or granted, in ms. Known where one owner holds it and tells the length of its lease, in
   * a store that counts leases down; on etcd and ZooKeeper a session stands for all of them.
   */
  readonly renewedAgoMs?: number;
}

/** Which keys `locks.list` tells of. */
export interface ListOptions {
  /** Lists the keys that begin with this text, without `keyPrefix`; default: all keys. */
  readonly prefix?: string;
  /** How many entries of the store to look through for one page, from 1 to 1000; default 100. */
  readonly limit?: number;
  /** `cursor` of the page before; default: the first page. */
  readonly cursor?: string;
}

/** Whose lock `locks.forceRelease` takes, and who takes it. */
export interface ForceReleaseOptions {
  /**
   * `owner` of the holders that `locks.inspect(key)` or a list has shown: only these lose the lock. The store checks it in the
   * step that releases. Left out: whoever holds the lock by then.
   */
  readonly owner?: string | readonly string[];
  /**
   * Who releases the lock, for people to read, in the `forced` event and, on Redis, in the message of the holder's
   * `LockLostError`. Default: the line of code that calls.
   */
  readonly by?: string;
}

/** A page of keys that are held or waited for. */
export interface LockPage {
  /** About `limit` of them or fewer, also none. */
  readonly entries: readonly LockInspection[];
  /** Keys whose state this release cannot read, with the reason: another release, or another program, has written it. */
  readonly unreadable: readonly UnreadableKey[];
  /** For the next page; `undefined` on the last one. */
  readonly cursor: string | undefined;
}

/** What a service holds of one key: one caller's part, and the nested calls that share it. */
export interface HoldSnapshot {
  /** The key, without the prefix of the store. */
  readonly key: string;
  /** How it is held: `'exclusive'`, `'shared'` or `'permits'`. */
  readonly mode: LockMode;
  /** Names the owner in the store, as in `LockSnapshot.holders`. */
  readonly owner: string;
  /** The token of this hold. */
  readonly fencingToken: number;
  /**
   * The method, or the option `site` of the call that has acquired it, or the line that has called `acquire`. A process notes at most
   * 100 lines in 100 ms, so it may be missing where `acquire` is called more often.
   */
  readonly site: string | undefined;
  /** When it was acquired, by the clock of the machine. */
  readonly since: Date;
  /** How long it has been held, in ms. */
  readonly heldMs: number;
  /** Validity of the lease that is left, in ms; 0 when it is over, and the loss is not noticed yet. */
  readonly validForMs: number;
  /** The whole length of the lease that each renewal restarts, in ms. */
  readonly leaseMs: number;
  /** How many calls share it: the one that has acquired it, and nested ones that have not ended. */
  readonly calls: number;
}

/** One key, or several that are held together. */
export type Keys = string | readonly string[];

/** Options of one call. Defaults come from the options of the module, `defaults` first. Times are in ms. */
export interface CallOptions {
  /**
   * Longest time in the queue, in ms; 0 asks once, `Infinity` waits for ever; default: `waitMs` of the module, 10 000. The
   * call always waits for the store's first answer.
   */
  readonly waitMs?: number;
  /**
   * Refuses the call at once with `LockWaitTimeoutError` if so many wait for the key already; default: no limit; 0: the call
   * never waits. It counts each caller of this process with the same claim and lease, and each other owner in the store's queue:
   * one for each other process that waits, or one for each of its `fair` callers that rechecks.
   */
  readonly maxWaiting?: number;
  /**
   * What the call does when others hold the key. `'throw'` (default): the call waits in the queue, and rejects with
   * `LockWaitTimeoutError` after `waitMs`. `'takeover'`: it goes to the head of the queue and has the holder told, whose
   * `lock.signal` aborts. A holder that has not released after `graceMs` loses the lock, and the call acquires it under a larger
   * fencing token. Each holder that it finds has its own grace. It ends a minimum hold, too. Not with `fair`, `permits`, `maxWaiting` and `mode: 'shared'`.
   */
  readonly onBusy?: 'throw' | 'takeover';
  /**
   * For `onBusy: 'takeover'`: how long the work of the holder may take to end once it is told, in ms; default 1000.
   * `waitMs` must be longer, and with several keys longer than a grace for each, as the call takes them over one after the other.
   */
  readonly graceMs?: number;
  /**
   * A fixed lease in ms, from 10 to 31 622 400 000 (366 days), that nothing renews. Without it (default) the watchdog renews until
   * the release.
   */
  readonly leaseMs?: number;
  /**
   * `shared`: together with other readers; later readers do not overtake a waiting writer. `exclusive`: alone, as without
   * a mode (default); name it where readers exist, so that Redisson's RReadWriteLock takes part.
   */
  readonly mode?: 'exclusive' | 'shared';
  /**
   * A semaphore: at most this many holders at a time; default: none, a lock. Each call is checked against its own number,
   * which may change. Not with `mode`.
   */
  readonly permits?: number;
  /** How many of the `permits` this call takes, at most 1000; default 1. */
  readonly weight?: number;
  /** Granted strictly in the order of asking, across processes, without local hand-off; default `false`. */
  readonly fair?: boolean;
  /**
   * `false`: this call shares its lock with no other call. A call for a key that its async flow holds is refused at once with
   * `LockDeadlockError` if it says so itself, or if the call that holds the key has said so. For processes in which a shared queue
   * may start the work of one caller in the async context of another. Default `true`: a nested call shares the lock.
   */
  readonly reentrant?: boolean;
  /**
   * Keeps the key taken for this many ms from the acquisition, even if it is released sooner; default 0. The release returns
   * at once, and the rest of the time is a lease that expires. For jobs that instances with skewed clocks start a moment
   * apart. At most `leaseMs`, where that is given. A takeover and `forceRelease` end it.
   */
  readonly holdAtLeastMs?: number;
  /**
   * Names the caller, for people who look for the holder of a lock: `'nightly report'`; at most 100 characters. Default: the class
   * and the method of `@Locked`, the line that has called `acquire` (at most 100 lines in 100 ms are noted), and nothing for other
   * calls. `locks.held()` shows it.
   */
  readonly site?: string;
  /** When it aborts, the call leaves the queue and rejects with `signal.reason`. It does not end a lock that is held already. */
  readonly signal?: AbortSignal;
}

/** Options of `withLock`. */
export interface WithLockOptions extends CallOptions {
  /** For work that succeeds although its lock was lost: reject with `LockLostError` (default), or keep the result. */
  readonly onLost?: 'throw' | 'ignore';
}
