import type { LockHolder, LockSnapshot, UnreadableKey } from '../port/lock-store.js';

/**
 * A lock that you hold. Only this object can release it: by `release()`, or by `await using lock = …` at the end of the block.
 *
 * A nested call for a key that the same async flow already holds gets a `Lock` of its own, with a larger `depth`. Its `release()`
 * ends the share of that call, and the last share releases the lock.
 */
export interface Lock extends AsyncDisposable {
  /** The key; if the call gave several, the first one. */
  readonly key: string;
  /** All keys, in the order in which the call gave them. */
  readonly keys: readonly string[];
  /**
   * `'exclusive'`, `'shared'` or `'permits'`; `exclusive` also for a call without a mode. `downgrade()` makes it `shared`. If the call gave
   * keys with claims of their own, the mode of the first key.
   */
  readonly mode: 'exclusive' | 'shared' | 'permits';
  /**
   * The id of the owner in the store, as in `locks.inspect(key)` and in events; if the call gave several keys, that of the first one. Calls
   * that hand the lock on to each other in one process may have the same owner.
   */
  readonly owner: string;
  /**
   * Aborts with a `LockLostError` when the lock is lost before its release, or when another call takes it over and the grace begins.
   * Each listener runs in the async context in which it was added.
   */
  readonly signal: AbortSignal;
  /**
   * Aborts with a `LockShutdownError` when the application begins to close while the lock is held. The work then has `shutdownGraceMs`
   * to end. After that the service gives the lock up under it, and `signal` aborts, too. For long loops.
   */
  readonly shutdownSignal: AbortSignal;
  /**
   * True while this lock is held and others wait for it, as far as this process knows. It knows of its own callers at once, and of
   * other processes by a notification, or at the latest by the next renewal. Long work can check this, release early and ask again.
   * Sends no request to the store.
   */
  readonly contended: boolean;
  /** How long the lease is still valid, in ms, computed at each use; 0 after a release or a loss. */
  readonly validForMs: number;
  /**
   * 0 for the call that acquired the lock, 1 for a call inside it that shares the lock, and so on; for several keys the largest. All
   * these calls have the same `fencingToken`, so `depth` tells a nested call from the outermost one.
   */
  readonly depth: number;
  /**
   * How many calls share the lock now: the one that acquired it, and nested ones that have not ended; for several keys the largest
   * number.
   */
  readonly calls: number;
  /**
   * Larger than every token of an earlier grant of this key. Tokens of locks that may be held at the same time (shared or permits) are
   * in no order. Pass it to the resource that you write to, and let that refuse smaller ones.
   *
   * @throws LockConfigurationError for several keys: use `tokenOf(key)`
   */
  readonly fencingToken: number;
  /** The fencing token of one key. @throws LockNotHeldError if `key` is not one of this lock's keys */
  tokenOf(key: string): number;
  /**
   * Throws unless the lock is held and its lease is valid. Sends no request to the store.
   *
   * @throws LockLostError when the lock is lost
   * @throws LockNotHeldError when it was released or detached
   */
  assertHeld(): void;
  /**
   * Sets the end of the lease to `ms` from now. Only for locks with a `leaseMs`, or after `keepFor`, because the watchdog renews the others.
   *
   * @throws LockNotHeldError or LockLostError when it is not held, LockStoreError when the store does not answer,
   * LockConfigurationError for a lock that the watchdog renews
   */
  extend(ms: number): Promise<void>;
  /**
   * Turns an exclusive lock into a shared one without giving it up in between. Nested calls that share it are then readers, too.
   * Readers that wait are granted the lock at once.
   *
   * @throws LockNotHeldError or LockLostError when it is not held, LockStoreError when the store does not answer,
   * LockConfigurationError for a lock of permits
   */
  downgrade(): Promise<void>;
  /**
   * Ends the renewals, and sets the end of the lease to `ms` from now. From then on the lease is fixed: `extend` moves its end, `signal`
   * aborts at its end, and `release()` still releases before. For work that must not keep the key for longer than planned.
   *
   * @throws LockNotHeldError or LockLostError when it is not held, LockStoreError when the store does not answer,
   * LockConfigurationError while other readers of this process share the lease
   */
  keepFor(ms: number): Promise<void>;
  /**
   * Detaches the lock from this process, so that another process can go on with it by `locks.attach(baton)`. The store keeps the key for
   * `leaseMs`, and nobody else gets it meanwhile. Nothing renews this lease. Callers of this process that wait go on waiting in the store's
   * queue. This object is over: its `release()` does nothing any more, so the end of a `withLock` around it does no harm.
   *
   * Detaches neither a lock of several keys nor one that nested calls or other readers of this process share, nor one with a
   * minimum hold that still runs.
   *
   * @returns the baton, a text that stands for the lock. Whoever has it can attach the lock: do not show it to clients
   * @throws LockNotHeldError or LockLostError when it is not held, LockConfigurationError for a lock that cannot be detached, LockStoreError
   * when the store does not answer or, as etcd, ZooKeeper and a quorum, cannot pass a lock on
   */
  detach(options: DetachOptions): Promise<string>;
  /** Runs `work` in an async flow that holds these keys, so that nested calls share them. Does not release. Settles as `work` does. */
  run<T>(work: () => T | Promise<T>): Promise<T>;
  /**
   * Releases this share of the lock. May be called again, and never rejects. Resolves after a local hand-off, or when the store has
   * confirmed the release, or when the lease has ended and the store has not replied.
   *
   * `lost`: the lease had ended before. `unknown`: the store did not reply until the lease was over.
   */
  release(): Promise<'released' | 'lost' | 'unknown'>;
}

/** Options of `lock.detach`. */
export interface DetachOptions {
  /** How long the store keeps the lock for the process that attaches it, in ms, from 10 to 31 622 400 000 (366 days). */
  readonly leaseMs: number;
}

/** The state of a key in the store, and who holds it. */
export interface LockInspection extends LockSnapshot {
  /** The holders, in the order of `holders`, with what is known about each. */
  readonly heldBy: readonly LockHolder[];
  /** The owners in `pending`, in the same order. Each of the first 20 has the name of its process, as far as it is known. */
  readonly waiters: readonly LockHolder[];
  /**
   * How long ago the lease was last renewed or granted, in ms. Known if one owner holds the key, if its client has published the length
   * of the lease, and if the store counts leases down. On etcd and ZooKeeper a session stands for all leases of a client.
   */
  readonly renewedAgoMs?: number;
}

/** Which keys `locks.list` returns. */
export interface ListOptions {
  /** List only keys that begin with this text, without `keyPrefix`; default: all keys. */
  readonly prefix?: string;
  /** How many entries of the store to look through for one page, from 1 to 1000; default 100. */
  readonly limit?: number;
  /** `cursor` of the previous page; default: the first page. */
  readonly cursor?: string;
}

/** Whose lock `locks.forceRelease` takes, and who takes it. */
export interface ForceReleaseOptions {
  /**
   * The ids of the holders that you have seen in `locks.inspect(key)` or in a list: only these lose the lock. The store checks it in
   * the step that releases. Left out: whoever holds the lock by then.
   */
  readonly owner?: string | readonly string[];
  /**
   * Who releases the lock, for people to read. It is in the `forced` event and, on Redis, in the message of the holder's
   * `LockLostError`. Default: the line of code that calls.
   */
  readonly by?: string;
}

/** A page of keys that are held or waited for. */
export interface LockPage {
  /** About `limit` of them or fewer; may be empty before the last page. */
  readonly entries: readonly LockInspection[];
  /** Keys whose state this release cannot read, with the reason: another release or another program has written it. */
  readonly unreadable: readonly UnreadableKey[];
  /** Pass this to get the next page; `undefined` on the last one. */
  readonly cursor: string | undefined;
}

/** The hold that one caller of this service has of one key, together with the nested calls that share its lock. */
export interface HoldSnapshot {
  /** The key, without the prefix of the store. */
  readonly key: string;
  /** How it is held: `'exclusive'`, `'shared'` or `'permits'`. */
  readonly mode: 'exclusive' | 'shared' | 'permits';
  /** The id of the owner in the store, as in `LockSnapshot.holders`. */
  readonly owner: string;
  /** The fencing token of this hold. */
  readonly fencingToken: number;
  /**
   * The method that acquired it, the option `site` of its call, or the line that called `acquire`. A process records such lines for at most
   * 100 calls in 100 ms, so the line may be missing if `acquire` is called more often.
   */
  readonly site: string | undefined;
  /** When it was acquired, by the clock of the machine. */
  readonly since: Date;
  /** How long it has been held, in ms. */
  readonly heldMs: number;
  /** How long the lease is still valid, in ms; 0 if it is over and nobody has noticed the loss yet. */
  readonly validForMs: number;
  /** The full length of the lease, to which each renewal resets it, in ms. */
  readonly leaseMs: number;
  /** How many calls share it: the one that acquired it, and nested ones that have not ended. */
  readonly calls: number;
}

/**
 * Options of one call. An option that is left out comes from `defaults` of the module, then from the module's other options. Times are
 * in ms.
 */
export interface CallOptions {
  /**
   * The longest time that the call waits in the queue, in ms. 0: it does not wait. `Infinity`: it waits for ever. Default: `waitMs` of
   * the module, 10 000. Even with 0 the call waits for the store's first reply.
   */
  readonly waitMs?: number;
  /**
   * Refuses the call at once with `LockWaitTimeoutError` if this many already wait for the key. Default: no limit. 0: the call never
   * waits. Counted are the callers of this process with the same claim and lease, and the other owners in the store's queue: one for
   * each other process that waits, or one for each of its `fair` callers that rechecks.
   */
  readonly maxWaiting?: number;
  /**
   * Decides what the call does when others hold the key. `'throw'` (default): the call waits in the queue, and rejects with
   * `LockWaitTimeoutError` after `waitMs`. `'takeover'`: it goes to the head of the queue, and the holder is notified: its
   * `lock.signal` aborts. A holder that has not released after `graceMs` loses the lock, and the call acquires it with a larger fencing
   * token. If another holder comes first, that one has its own grace. A takeover also ends a minimum hold. Not with `fair`, `permits`,
   * `maxWaiting` and `mode: 'shared'`.
   */
  readonly onBusy?: 'throw' | 'takeover';
  /**
   * For `onBusy: 'takeover'`: how long the work of the holder may still take after it was notified, in ms; default 1000. `waitMs` must
   * be longer. With several keys it must be longer than a grace for each, because the call takes them over one after the other.
   */
  readonly graceMs?: number;
  /**
   * A fixed lease in ms, from 10 to 31 622 400 000 (366 days), that nothing renews. Default: the watchdog renews the lease until the
   * release.
   */
  readonly leaseMs?: number;
  /**
   * `shared`: held together with other readers; later readers do not overtake a waiting writer. `exclusive`: held alone, as without a
   * mode (default). Write `exclusive` for a key that also has readers, so that it works together with Redisson's RReadWriteLock.
   */
  readonly mode?: 'exclusive' | 'shared';
  /**
   * Makes the key a semaphore: at most this many holders at a time. Default: none, a lock. Each call is checked against its own number,
   * so callers may change it. Not with `mode`.
   */
  readonly permits?: number;
  /** How many of the `permits` this call takes, at most 1000; default 1. */
  readonly weight?: number;
  /** Granted strictly in the order of asking, across processes, without local hand-offs; default `false`. */
  readonly fair?: boolean;
  /**
   * `false`: this call shares its lock with no other call. If the async flow of a call holds the key already, and that call or the one
   * that holds the key has `reentrant: false`, the call is refused at once with `LockDeadlockError`. Use it if a shared queue may run
   * the work of one caller in the async context of another. Default `true`: a nested call shares the lock.
   */
  readonly reentrant?: boolean;
  /**
   * Keeps the key taken for this many ms from the acquisition, even if it is released sooner; default 0. The release returns at once,
   * and the rest of the time is a lease that expires. For jobs that several instances start a moment apart, because their clocks
   * differ. At most `leaseMs`, if that is given. A takeover and `forceRelease` end it.
   */
  readonly holdAtLeastMs?: number;
  /**
   * Names the caller, for people who look for the holder of a lock: `'nightly report'`; at most 100 characters. `locks.held()` shows it.
   * Default: class and method for `@Locked`, the calling line for `acquire` (recorded for at most 100 calls in 100 ms), nothing for other
   * calls.
   */
  readonly site?: string;
  /** When it aborts, the call leaves the queue and rejects with `signal.reason`. A lock that is already held stays held. */
  readonly signal?: AbortSignal;
  /**
   * Called when the call begins to wait for `key`, at most one time for each key of the call, with its place in line: 1 for the next one.
   * The place is approximate: it counts the callers of this process ahead of the call, and the owners that wait in the store as far as
   * its last reply tells. While this process has the lock, only its own callers count. Not called if the call gets its lock without
   * waiting or has `waitMs: 0`. Sends no request, but the store counts its queue for the one that asks for the lock. If the function
   * throws or its promise rejects, the call goes on, and an `error` event reports it.
   */
  readonly onQueued?: (position: number, key: string) => unknown;
}

/** Options of `locks.attach`. They have the same meaning as in `CallOptions`. */
export interface AttachOptions {
  /** How long the call repeats its request while the store does not answer, in ms; default: `waitMs` of the module. */
  readonly waitMs?: number;
  readonly site?: string;
  readonly signal?: AbortSignal;
}

/** Options of `withLock`. */
export interface WithLockOptions extends CallOptions {
  /**
   * Decides what happens if the lock was lost but the work succeeds: the call rejects with `LockLostError` (`'throw'`, default), or returns the
   * result (`'ignore'`).
   */
  readonly onLost?: 'throw' | 'ignore';
}
