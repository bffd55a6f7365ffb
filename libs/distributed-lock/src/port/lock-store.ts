import type { Observable } from 'rxjs';
import type { Claim, LockMode } from './claim.js';
import type { Clock } from '../time/clock.js';
import type { LockStoreError } from './lock.errors.js';

/**
 * PORT: what the core asks of a back end.
 *
 * One *owner* is one tenure of one process: it asks, may stand in line, holds, and ends; its id is never used again.
 * Every call may be repeated with the same arguments without harm.
 *
 * A rejected promise carries a `LockStoreError`; unless its `reason` says otherwise the outcome is **unknown**. It never
 * means "no": busy and lost are answers.
 */
export interface LockStore {
  /** For messages and events: `memory`, `redis`. */
  readonly name: string;
  /** Where it is, for messages: host and port, without user and password. Absent where there is nothing to say. */
  readonly address?: string;
  /** Starts each owner id of this client; owners are written `clientId:number`, with a number of any length. */
  readonly clientId: string;
  /** Longest time in ms that one call takes to settle; `end` may repeat itself for longer, see there. */
  readonly commandTimeoutMs: number;
  /** Grants and hints that nobody asked for. A lost push delays, it never breaks: see `AcquireReply.lookAfterMs`. */
  readonly notifications$: Observable<Notification>;

  /** Asks for the lock; enters the line if `waitMs` allows; answers "granted" again to an owner that already holds. */
  acquire(ask: AcquireRequest): Promise<AcquireReply>;
  /**
   * Asks for several locks at once, all or none, without entering a line. `InTheWay` names one that seems to be in use;
   * `null` when none can be named, or when the back end cannot take them in one step. Absent where it never can.
   */
  acquireAll?(asks: readonly AcquireRequest[]): Promise<readonly (Grant & Repeated)[] | InTheWay | null>;
  /**
   * Restarts leases, all in one batch. Never rejects: each reply stands for one renewal, in order.
   *
   * An owner that holds alone and renews with a `shared` claim steps down: readers in line enter beside it.
   */
  renew(renewals: readonly Renewal[]): Promise<readonly RenewalReply[]>;
  /**
   * The owner gives up its lock or its place in line; the next in line is granted.
   *
   * Resolves once it is certain that this owner neither holds nor ever will; until then the store repeats the request
   * by itself, bounded by the lease, or by three looks if that is more, plus one command. Rejects when that bound is over:
   * lease and place have run out by then.
   */
  release(end: ReleaseRequest): Promise<ReleaseReply>;
  /** `null` when nobody holds and nobody waits. */
  inspect(key: string): Promise<LockSnapshot | null>;
  /** Takes the lock from whoever holds it and grants the next in line. The holder is told if it is one of ours. */
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
  /** Takes what went wrong although no caller had asked for it; it becomes an `error` event. */
  readonly onError?: (during: string, error: LockStoreError) => void;
  /** Takes that the back end cannot be reached, and that it can again; it becomes a `store` event. */
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
  /** How much longer the caller waits, in ms: `Infinity` allowed; 0 asks once and does not enter the line. */
  readonly waitMs: number;
  /** The place that an earlier reply gave, so that it survives a lost line; 0 the first time. */
  readonly ticket: number;
  /** How many fencing tokens to reserve for local hand-offs, at least 1. */
  readonly tokens: number;
  /** Whoever has the lock already reserves tokens up to this one; for a store made of stores. */
  readonly minLastToken?: number;
}

/** A reply to a request that the store has sent more than once. */
export interface Repeated {
  /** An earlier copy of the request was never answered and may still be executed: whatever follows, `end` the owner. */
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
  /** Others in line behind this owner, in other processes. */
  readonly waiting: number;
  /** A pushed grant runs on a short lease until a renewal confirms it. */
  readonly confirmed: boolean;
}

export interface Queued {
  readonly kind: 'queued';
  readonly ticket: number;
  /** An owner that holds the lock now, or `undefined` when the lock is kept free for others for a moment. */
  readonly holder: string | undefined;
  /** What is left of that holder's lease, in ms; `Infinity` when it has none. */
  readonly remainingMs: number;
  /** Ask again after this many ms at the latest, whatever is pushed meanwhile. */
  readonly recheckAfterMs: number;
}

export interface Busy {
  readonly kind: 'busy';
  readonly holder: string | undefined;
  readonly remainingMs: number;
}

/** Of several keys, one that is held or waited for. What is left of holders that are gone may look so, too. */
export interface InTheWay {
  readonly key: string;
}

export interface Renewal {
  readonly key: string;
  readonly owner: string;
  readonly claim: Claim;
  readonly leaseMs: number;
  /** `Grant.token` of the grant that is renewed: the same owner under another grant has lost this one. */
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
  /** The lease asked for: bounds how long an unanswered end is repeated. */
  readonly leaseMs: number;
  /** The grant being given back: its block's end, and the last token that was used. Absent when none was received. */
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

/** `unknown`: gone now, but whether it was held until this call cannot be told, as an earlier answer was lost. */
export type ReleaseReply = 'released' | 'not held' | 'unknown';

export type Notification =
  | ({ readonly owner: string } & Grant)
  /** Others have joined the line behind this owner. */
  | { readonly kind: 'contended'; readonly owner: string; readonly waiting: number }
  /** The lock was taken from this owner. */
  | { readonly kind: 'lost'; readonly owner: string }
  /** Something may have changed: ask again after `afterMs`; without an owner this holds for all that wait. */
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
  /** Owners in line, in order. */
  readonly pending: readonly string[];
  /** The last token given out for this key; `undefined` when the store remembers none. */
  readonly fencingToken: number | undefined;
}
