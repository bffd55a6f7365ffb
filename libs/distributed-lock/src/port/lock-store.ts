import type { Observable } from 'rxjs';
import type { Claim, LockMode } from './claim.js';
import type { Clock } from '../time/clock.js';
import type { LockStoreError } from './lock.errors.js';

/**
 * PORT: what the core asks of a back end.
 *
 * One *owner* is one stay of one process with one key: it acquires, may wait in the queue, holds, and releases. Its id is
 * never used again. Every call may be repeated with the same arguments without harm.
 *
 * A rejected promise carries a `LockStoreError`. Unless its `reason` says otherwise the outcome is **unknown**. It never
 * means "no": busy and lost are replies.
 */
export interface LockStore {
  /** For messages and events: `memory`, `redis`. */
  readonly name: string;
  /** Where it is, for messages: host and port, without user and password. Absent where there is nothing to say. */
  readonly address?: string;
  /** Starts each owner id of this client; owners are written `clientId:number`, with a number of any length. */
  readonly clientId: string;
  /** Longest time in ms that one call takes to settle. `release` may repeat its request for longer. */
  readonly commandTimeoutMs: number;
  /** A lost notification delays a waiter until `Queued.recheckAfterMs` and does no other harm. */
  readonly notifications$: Observable<Notification>;

  /** Acquires the lock, or enters the queue if `waitMs` allows. An owner that already holds is granted it again. */
  acquire(ask: AcquireRequest): Promise<AcquireReply>;
  /**
   * Acquires several locks at once, all or none, without entering a queue. `InTheWay` names one that seems to be in use.
   * `null` when none can be named, or when the back end cannot take them in one step. Absent where it never can.
   */
  acquireAll?(asks: readonly AcquireRequest[]): Promise<readonly (Grant & Repeated)[] | InTheWay | null>;
  /**
   * Restarts leases, all in one batch. Never rejects: each reply stands for one renewal, in order.
   *
   * An owner that holds alone and renews with a `shared` claim steps down: readers in the queue enter beside it.
   */
  renew(renewals: readonly Renewal[]): Promise<readonly RenewalReply[]>;
  /**
   * The owner gives up its lock or leaves the queue. The next waiter is granted.
   *
   * Resolves once it is certain that this owner neither holds nor ever will; until then the store repeats the request
   * by itself, bounded by the lease, or by three rechecks if that is more, plus one command. Rejects when that bound is
   * over: lease and ticket have run out by then.
   */
  release(end: ReleaseRequest): Promise<ReleaseReply>;
  /** `null` when nobody holds and nobody waits. */
  inspect(key: string): Promise<LockSnapshot | null>;
  /** Takes the lock from its holders and grants the next waiter. Holders of this library are told. */
  forceRelease(key: string): Promise<'released' | 'not held'>;
  /** Rejects what is under way, closes what the store opened. Repeatable. */
  close(): Promise<void>;
}

/** A recipe for a store: opens nothing until `create` is called. */
export interface LockStoreFactory {
  create(context: LockStoreContext): LockStore;
}

export interface LockStoreContext {
  readonly clock: Clock;
  /** Put before each key, with nothing between: the name in the back end is exactly `keyPrefix + key`. */
  readonly keyPrefix: string;
  /** The longest lease that the watchdog asks for; a store checks its own timings against it. */
  readonly watchdogTimeoutMs: number;
  /** Takes a failure that no caller waits for. It becomes an `error` event. */
  readonly onError?: (during: string, error: LockStoreError) => void;
  /** Takes that the back end cannot be reached, and that it can again. It becomes a `store` event. */
  readonly onState?: (state: StoreState) => void;
}

/** Whether a back end can be reached. Nothing is said of one that can be from the start. */
export type StoreState =
  | { readonly isUp: false; readonly error: LockStoreError; readonly node?: number }
  | {
      readonly isUp: true;
      /** How long it could not be reached, in ms. */
      readonly afterMs: number;
      /** Of a store made of stores: which one, from 1 on. */
      readonly node?: number;
    };

export interface AcquireRequest {
  readonly key: string;
  readonly owner: string;
  readonly claim: Claim;
  /** Length of the lease in ms. */
  readonly leaseMs: number;
  /** How much longer the caller waits, in ms, maybe `Infinity`. 0 asks once and does not enter the queue. */
  readonly waitMs: number;
  /** The ticket of an earlier reply, so that it survives a lost queue. 0 the first time. */
  readonly ticket: number;
  /** How many fencing tokens to reserve for local hand-offs, at least 1. */
  readonly tokens: number;
  /** An owner that has the lock already reserves tokens up to this one. For a store made of stores. */
  readonly minLastToken?: number;
}

/** A reply to a request that the store has sent more than once. */
export interface Repeated {
  /** An earlier copy of the request was never answered and may still be executed: the owner must be released. */
  readonly mayComeLate?: boolean;
}

export type AcquireReply = (Grant | Queued | Busy) & Repeated;

export interface Grant {
  readonly kind: 'granted';
  /** First of the fencing tokens reserved by this grant; it also names the grant. */
  readonly token: number;
  readonly lastToken: number;
  /** On the clock of the context: the holder may believe in the lease until then, margin already taken off. */
  readonly validUntil: number;
  /** Owners that wait in the queue behind this one. */
  readonly waiting: number;
  /** A grant by notification has an initial lease until a renewal confirms it. */
  readonly confirmed: boolean;
}

export interface Queued {
  readonly kind: 'queued';
  readonly ticket: number;
  /** An owner that holds the lock now, or `undefined` when the lock is kept free for others for a moment. */
  readonly holder: string | undefined;
  /** What is left of that holder's lease, in ms; `Infinity` when it has none. */
  readonly remainingMs: number;
  /** The owner rechecks after this many ms at the latest, whatever notification comes meanwhile. */
  readonly recheckAfterMs: number;
}

export interface Busy {
  readonly kind: 'busy';
  readonly holder: string | undefined;
  readonly remainingMs: number;
}

/** One of several keys, which is held or waited for. Leases of holders that are gone may look so, too. */
export interface InTheWay {
  readonly key: string;
}

export interface Renewal {
  readonly key: string;
  readonly owner: string;
  readonly claim: Claim;
  readonly leaseMs: number;
  /** `Grant.token` of the grant that is renewed. The same owner under another grant has lost this one. */
  readonly token: number;
  readonly lastToken: number;
}

export type RenewalReply =
  | { readonly kind: 'renewed'; readonly validUntil: number; readonly waiting: number }
  | { readonly kind: 'lost' }
  | { readonly kind: 'unknown'; readonly error: LockStoreError };

export interface ReleaseRequest {
  readonly key: string;
  readonly owner: string;
  readonly claim: Claim;
  /** The lease asked for. It bounds how long an unanswered release is repeated. */
  readonly leaseMs: number;
  /** The last token of the grant, and the last that was used: those between go back. Absent when there are none. */
  readonly used?: { readonly token: number; readonly lastToken: number };
  /**
   * The minimum hold: nobody gets the key before this, on the clock of the context. If the owner holds, the store passes
   * its lease on to `keeperOf(owner)`, under which the key runs out by itself: nothing that comes late for the owner finds
   * it. A lock that was lost is not taken again.
   */
  readonly keepUntil?: number;
  /**
   * When it should leave: `now`, ahead of other requests, since other processes wait for the lock; or at once if no other
   * request is under way (`when idle`), since a caller awaits the reply. A store may send other requests in batches.
   */
  readonly flush?: 'now' | 'when idle';
}

/** Has the key for the rest of a minimum hold. No caller has this id, and no request. */
export function keeperOf(owner: string): string {
  return owner.replace(':', ':-');
}

/** `unknown`: gone now. Whether it was held until this call cannot be told, as an earlier reply was lost. */
export type ReleaseReply = 'released' | 'not held' | 'unknown';

export type Notification =
  | ({ readonly owner: string } & Grant)
  /** Others have joined the queue behind this owner. */
  | { readonly kind: 'contended'; readonly owner: string; readonly waiting: number }
  /** The lock was taken from this owner. */
  | { readonly kind: 'lost'; readonly owner: string }
  /** The owner rechecks after `afterMs`. Without an owner all waiters do. */
  | { readonly kind: 'recheck'; readonly owner?: string; readonly afterMs: number };

/** What a store knows about a key. */
export interface LockSnapshot {
  readonly key: string;
  /** How it is held; `undefined` while it is free. */
  readonly mode: LockMode | undefined;
  /** The owners that hold it, as written in the store. */
  readonly holders: readonly string[];
  /** What is left of the lease that ends first, in ms; `Infinity` when none ends, 0 while the key is free. */
  readonly remainingMs: number;
  /** Owners in the queue, in order. */
  readonly pending: readonly string[];
  /** The last token given out for this key; `undefined` when the store remembers none. */
  readonly fencingToken: number | undefined;
}
