import type { Observable } from 'rxjs';
import type { Chance, Clock } from '../common/clock.js';
import type { LockStoreError } from './lock.errors.js';

/** Which process a client of a store is, for people who look for the holder of a lock. Exclusion does not depend on it. */
export interface LockClient {
  /** The option `application` of the module; default: the name in the nearest `package.json`, or the title of the process. */
  readonly application: string;
  /** The name of its machine, which is the name of the pod on Kubernetes. */
  readonly host: string;
  /** The id of the process on its host. */
  readonly process: number;
  /** When the client was made, by the clock of its machine. */
  readonly since: Date;
}

/**
 * An owner that holds a lock, as far as it is known who that is. The names are missing for a holder of less than a second, for
 * one of another library or with `application: false`, and in a store that keeps no holder entries. Another process knows `site` and
 * `heldMs` of up to 200 locks of a process that others wait for, and of the 20 others that are held longest.
 */
export interface LockHolder {
  /** Names the owner in the store. */
  readonly owner: string;
  readonly client?: LockClient;
  /** The method that acquired the lock, the option `site` of its call, or the line that called `acquire`. */
  readonly site?: string;
  /** How long the caller has held the lock, in ms. The clocks of two machines are compared, so it is not exact. */
  readonly heldMs?: number;
}

/**
 * PORT: the requests that the core sends to a back end.
 *
 * One *owner* is one stay of one process with one key: it acquires, may wait in the queue, holds, and releases. Its id is
 * never used again. Every call may be repeated with the same arguments without harm.
 *
 * A rejected promise carries a `LockStoreError`. Unless its `reason` says otherwise the outcome is **unknown**. It never
 * means "no": busy and lost are replies.
 */
export interface LockStore {
  /** The name of the store in messages and events: `memory`, `redis`. */
  readonly name: string;
  /**
   * Where the locks are, for messages: host and port of the back end, without user and password. Absent for a back end
   * without an address.
   */
  readonly address?: string | undefined;
  /**
   * Settles when the first attempt to connect has ended, for a store that can tell its whole `address` only then. Never
   * rejects.
   */
  readonly attempted?: Promise<void> | undefined;
  /** The first part of each owner id of this client. An owner id is `clientId:number`, with a number of any length. */
  readonly clientId: string;
  /**
   * Longest time in ms that one request to the back end takes. A call may need several: `release` repeats its request, and
   * a store of documents sends a second one when another client was first.
   */
  readonly commandTimeoutMs: number;
  /**
   * `LockRuntime` gives each to its owner. If one is lost, a waiter learns of its grant by its recheck after `recheckAfterMs`, and a
   * holder of its loss by its next renewal. A store that learns that it may have lost some says `gap`.
   */
  readonly notifications$: Observable<Notification>;

  /**
   * Acquires the lock, or enters the queue if `waitMs` allows. An owner that already holds is granted it again. The core calls
   * this and `release` through `GuardedStore`.
   */
  acquire(request: AcquireRequest): Promise<AcquireReply>;
  /**
   * Restarts leases, all in one batch. Never rejects: each reply stands for one renewal, in order.
   *
   * An exclusive holder that renews with a `shared` claim downgrades its lock. The store then grants the readers in the queue.
   */
  renew(renewals: readonly Renewal[]): Promise<readonly RenewalReply[]>;
  /**
   * The owner releases its lock or leaves the queue. The store then grants the next waiter.
   *
   * Resolves once it is certain that this owner neither holds the lock nor ever will. Until then the store repeats the
   * request. It gives up once the lease, or three rechecks if they take longer, and one command have passed since the first
   * copy was answered or failed. Then it settles as the last copy did, because lease and ticket have expired.
   */
  release(request: ReleaseRequest): Promise<ReleaseReply>;
  /** The holders and the queue of a key, or `null` when it has neither. */
  inspect(key: string): Promise<LockSnapshot | null>;
  /** Rejects the calls in flight and closes the connections of the store. A second call does nothing. */
  close(): Promise<void>;

  // What a store need not have. `port/timing.ts` says which methods belong together, and refuses what a store cannot.

  /**
   * Takes the lock from its holders, or from some of them, and grants the next waiter. Holders of this library get a `lost`
   * notification. The step that removes holders also finds out who holds, so that nobody else loses the lock.
   */
  forceRelease?(key: string, force?: Force): Promise<ForceReply>;
  /**
   * Tells a holder of this library by a `takeover` notification that it will lose the lock. Changes nothing else. The
   * notification may be lost, or come to an owner that holds no more.
   *
   * @returns `nobody to tell` when no process of this library works under that hold: it is of a foreign client, or the rest
   * of a minimum hold
   */
  announceTakeover?(takeover: TakeoverNotice): Promise<'announced' | 'nobody to tell'>;
  /**
   * Keeps a text in which a client tells people who it is, in place of its earlier one, until its lease is over. Locks do not
   * depend on it. Absent where a back end has no place for it.
   */
  publishHolderEntry?(entry: HolderEntry): Promise<void>;
  /** The texts of these clients, in the same order; `undefined` for a client that has none. There if `publishHolderEntry` is. */
  readHolderEntries?(clientIds: readonly string[]): Promise<readonly (string | undefined)[]>;
  /**
   * The keys that are held or waited for, a page at a time. A key that is acquired or released meanwhile may be missing or
   * may still be there. Absent where a back end cannot find the keys.
   */
  list?(request: ListRequest): Promise<KeyPage>;
}

/** Creates a store. A store function such as `redisStore(…)` returns it, and opens nothing until `create` is called. */
export interface LockStoreFactory {
  /** Opens a client of the back end for one `LockService`. Does not wait for a connection. */
  create(context: LockStoreContext): LockStore;
}

/** The service that creates a store passes this to it. */
export interface LockStoreContext {
  /** The only source of time that a store may use. */
  readonly clock: Clock;
  /** The only source of random numbers and ids that a store may use; default: that of the machine. */
  readonly chance?: Chance;
  /** Put before each key, with nothing between: the name in the back end is exactly `keyPrefix + key`. */
  readonly keyPrefix: string;
  /** The longest lease that the watchdog asks for; a store checks its own timings against it. */
  readonly watchdogTimeoutMs: number;
  /** Which process this client is. A store names its connections by it. Absent: nothing is told about this process. */
  readonly client?: LockClient;
  /** The store calls it with a failure that no caller waits for. The service makes an `error` event of it. */
  readonly onError?: (during: string, error: LockStoreError) => void;
  /** The store calls it when its configuration works, and is probably not meant. It becomes a `warning` event. */
  readonly onWarning?: (message: string) => void;
  /** The store calls it when the back end cannot be reached, and when it can be reached again. It becomes a `store` event. */
  readonly onState?: (state: StoreState) => void;
}

/** Whether a back end can be reached. A store does not report a back end that can be reached from the start. */
export type StoreState =
  /** It cannot be reached. */
  | { readonly isUp: false; readonly error: LockStoreError; readonly node?: number }
  /** It can be reached again. */
  | {
      readonly isUp: true;
      /** How long the back end could not be reached, in ms. */
      readonly afterMs: number;
      /** The number of the node in a quorum, from 1 on. */
      readonly node?: number;
    };

/** One owner asks for one key. */
export interface AcquireRequest {
  /** Without the prefix of the store. */
  readonly key: string;
  /** The owner id, never used for another stay. */
  readonly owner: string;
  /**
   * `lock`, a mutex, and `exclusive`, the writer of a read-write lock: alone. `shared`: with other readers. `permits`: takes
   * `weight` permits of a semaphore.
   */
  readonly claim: Claim;
  /** Length of the lease in ms. */
  readonly leaseMs: number;
  /**
   * How much longer the most patient of its callers waits, in ms; may be `Infinity`. With 0 the owner asks once and does not
   * enter the queue.
   */
  readonly waitMs: number;
  /**
   * The ticket of an earlier reply, so that it survives a lost queue. 0 the first time. The queue is in order of tickets, and
   * those that stores give out are positive. A takeover asks with a negative one, which is ahead of these.
   */
  readonly ticket: number;
  /** How many fencing tokens to reserve for local hand-offs, at least 1. An owner that holds with fewer of them reserves the rest. */
  readonly tokens: number;
  /**
   * The owner enters the queue only if fewer other owners wait there; otherwise the reply is `Busy`. An owner that is in the
   * queue stays there. With this field `Queued` and `Busy` tell how many wait, and `Infinity` asks for that number only.
   * Decided in the step that enters the queue. Absent: any number may wait.
   */
  readonly maxWaiting?: number;
}

/** A reply to a request that the store has sent more than once. */
export interface Repeated {
  /** An earlier copy of the request was never answered and may still be executed. The core must release the owner. */
  readonly mayComeLate?: boolean;
}

/** The owner holds the lock, waits for it, or asked once and did not get it. */
export type AcquireReply = (Grant | Queued | Busy) & Repeated;

/** The owner holds the lock. */
export interface Grant {
  readonly kind: 'granted';
  /** The first fencing token of this grant. It identifies the grant in renewals. */
  readonly token: number;
  /** The last of the tokens that were reserved for local hand-offs. */
  readonly lastToken: number;
  /** End of the validity, on the clock of the context. The margin for clock drift is already taken off. */
  readonly validUntil: number;
  /** Owners that wait in the queue behind this one. */
  readonly waiting: number;
  /** A grant by notification has an initial lease until a renewal confirms it. */
  readonly confirmed: boolean;
}

/** The owner waits. A notification tells it of its grant. */
export interface Queued {
  readonly kind: 'queued';
  /** The owner's place in the queue, to be presented again. */
  readonly ticket: number;
  /** One of the holders; `undefined` when the lock is free but kept for others that have waited longer. */
  readonly holder: string | undefined;
  /** The remaining lease of that holder, in ms; `Infinity` for a lease without an end. */
  readonly remainingMs: number;
  /** The owner rechecks after this many ms at the latest, whatever notification comes meanwhile. */
  readonly recheckAfterMs: number;
  /** Other owners in the queue, without those that stopped rechecking. Only for a request with `maxWaiting`. */
  readonly waiting?: number;
}

/** The owner asked once, or `maxWaiting` others wait. Others hold the lock or wait for it. It has not entered the queue. */
export interface Busy {
  readonly kind: 'busy';
  /** One of the holders; `undefined` when the lock is free but kept for others that have waited longer. */
  readonly holder: string | undefined;
  /** The remaining lease of that holder, in ms; `Infinity` for a lease without an end. */
  readonly remainingMs: number;
  /** As in `Queued`. Present if the owner would have waited. */
  readonly waiting?: number;
}

/** A holder asks for its lease to begin anew. */
export interface Renewal {
  readonly key: string;
  readonly owner: string;
  readonly claim: Claim;
  /** Length of the new lease in ms. */
  readonly leaseMs: number;
  /** `Grant.token` of the grant that is renewed. The store replies `lost` if the owner holds under another grant by now. */
  readonly token: number;
  readonly lastToken: number;
}

/** `unknown`: the store did not answer, so the lease may or may not have been renewed. */
export type RenewalReply =
  | { readonly kind: 'renewed'; readonly validUntil: number; readonly waiting: number }
  | { readonly kind: 'lost' }
  | { readonly kind: 'unknown'; readonly error: LockStoreError };

/** An owner gives its lock or its place in the queue back. */
export interface ReleaseRequest {
  readonly key: string;
  readonly owner: string;
  readonly claim: Claim;
  /** Length of the lease in ms. It bounds how long the store repeats an unanswered release. */
  readonly leaseMs: number;
  /** The last token used, and the last of the grant. The store takes back the tokens between. Absent when there are none. */
  readonly used?: { readonly token: number; readonly lastToken: number } | undefined;
  /**
   * End of the minimum hold, on the clock of the context. The store grants the key to no other owner before then. If the
   * owner holds, the store gives its lease to the owner id `placeholderOf(owner)`, under which the lease expires, so that a late
   * request of the owner does not find it. If the owner has lost the lock, the store keeps nothing.
   */
  readonly holdUntil?: number | undefined;
  /**
   * How soon the store sends the request. `now`: ahead of other requests, because other processes wait for the lock.
   * `when idle`: at once if no other request is in flight, because a caller awaits the reply. Absent: maybe in a batch.
   */
  readonly flush?: 'now' | 'when idle' | undefined;
}

/** The owner id that holds the key for the rest of a minimum hold. No request is ever sent with this id. */
export function placeholderOf(owner: string): string {
  return owner.replace(':', ':-');
}

export function isPlaceholder(owner: string): boolean {
  return owner.includes(':-');
}

/** `unknown`: released now, but an earlier reply was lost, so the store cannot tell whether the owner held until this call. */
export type ReleaseReply = 'released' | 'not held' | 'unknown';

/** From whom a lock is taken by force, and by whom. */
export interface Force {
  /** Only these owners lose the lock; absent: all holders. An empty list frees nobody. */
  readonly owners?: readonly string[];
  /** Who takes it, for people to read. The `lost` notification repeats it where the store has a place for it. */
  readonly by?: string;
}

/** `held by another`: none of `Force.owners` holds the lock, and somebody else does. */
export type ForceReply = 'released' | 'not held' | 'held by another';

/** A store tells an owner this without being asked. */
export type Notification =
  /** The owner waited, and holds the lock now. */
  | ({ readonly owner: string } & Grant)
  /** Other owners wait in the queue behind this holder. */
  | { readonly kind: 'contended'; readonly owner: string; readonly waiting: number }
  /** The lock was taken from this owner. */
  | { readonly kind: 'lost'; readonly owner: string; readonly by?: string }
  /** Another owner takes the lock over from this holder, `graceMs` from now. May come more than once. */
  | ({ readonly kind: 'takeover' } & Omit<TakeoverNotice, 'key'>)
  /** The owner rechecks after `afterMs`. Without an owner, all waiting owners do. */
  | { readonly kind: 'recheck'; readonly owner?: string; readonly afterMs: number }
  /**
   * Notifications to any owner of this client may have been lost. All owners that wait recheck at once, and all that hold under the
   * watchdog renew at once, because the replies say what the notifications did.
   */
  | { readonly kind: 'gap'; readonly owner?: undefined };

/** The holder of a key will lose it to an owner at the head of the queue. */
export interface TakeoverNotice {
  readonly key: string;
  /** The holder. */
  readonly owner: string;
  /** How long the work of the holder may take to end, in ms. */
  readonly graceMs: number;
  /** Who takes the lock over, for people to read. */
  readonly by: string;
}

/** A client tells people who it is. */
export interface HolderEntry {
  /** `clientId` of the store, or of the quorum store that this store is a node of. */
  readonly clientId: string;
  /** Kept as it is; some kilobytes at most. */
  readonly text: string;
  /** How long it is kept, in ms. */
  readonly leaseMs: number;
}

/** Which keys to list. */
export interface ListRequest {
  /** The store lists the keys that begin with this text, without its own prefix; `''` for all. */
  readonly prefix: string;
  /** How many entries of the back end to look through for one page, about. */
  readonly limit: number;
  /** `cursor` of the page before; absent for the first page. */
  readonly cursor?: string;
}

/** Some of the keys that are held or waited for. */
export interface KeyPage {
  /** About as many as were asked for, or fewer, also none. */
  readonly entries: readonly LockSnapshot[];
  /** Keys of the page whose state this release cannot read. */
  readonly unreadable: readonly UnreadableKey[];
  /** To be given for the next page; absent on the last one. */
  readonly cursor?: string;
}

/** A key that may be held or waited for: nobody can tell from what the store has for it. */
export interface UnreadableKey {
  /** The key, without the prefix of the store. */
  readonly key: string;
  /** Why it cannot be read, and what to do. */
  readonly message: string;
}

/** The state of a key in the store. */
export interface LockSnapshot {
  /** The key, without the prefix of the store. */
  readonly key: string;
  /** How it is held: `'exclusive'`, `'shared'` or `'permits'`; `undefined` while it is free. */
  readonly mode: LockMode | undefined;
  /** The owners that hold it, as written in the store. */
  readonly holders: readonly string[];
  /**
   * The remaining time of the lease that ends first, in ms; for readers on Redis, of the one that ends last. `Infinity` when
   * none ends, 0 while the key is free.
   */
  readonly remainingMs: number;
  /**
   * Owners in the queue of the store, in order: one for each other process that waits, or one for each of its `fair` callers
   * that rechecks. Callers that wait inside the process of the holder are not among them, as no store knows of them.
   */
  readonly pending: readonly string[];
  /** A fencing token of the newest grant; `undefined` when the store has none for the key. */
  readonly fencingToken: number | undefined;
}

/** How an owner asks for its key. An owner keeps its claim, except that an exclusive holder may downgrade to `shared`. */
export type Claim =
  /** One owner holds alone. `exclusive` is the writer's side of a read-write lock, which some stores keep in another format. */
  | { readonly kind: 'lock' }
  | { readonly kind: 'exclusive' }
  /** The owner holds together with all other `shared` owners. */
  | { readonly kind: 'shared' }
  /** The owner takes `weight` permits of a semaphore. Each claim is checked against its own `permits`, which may change. */
  | { readonly kind: 'permits'; readonly permits: number; readonly weight: number };

/** How a lock is held: alone, with other readers, or with others up to a number. */
export type LockMode = 'exclusive' | 'shared' | 'permits';

export const LOCK: Claim = { kind: 'lock' };
export const SHARED: Claim = { kind: 'shared' };

export function modeOf({ kind }: Claim): LockMode {
  return kind === 'lock' ? 'exclusive' : kind;
}

/** True for a claim that allows one holder at a time. */
export function isExclusive(claim: Claim): claim is Extract<Claim, { kind: 'lock' | 'exclusive' }> {
  return claim.kind === 'lock' || claim.kind === 'exclusive';
}

/** True if a holder with the claim `held` already has what `wanted` asks for. */
export function covers(held: Claim, wanted: Claim): boolean {
  if (isExclusive(held)) return wanted.kind !== 'permits';
  if (held.kind === 'permits') return wanted.kind === 'permits' && wanted.weight <= held.weight;
  return wanted.kind === 'shared';
}

/** The claim in the words of the call options, for messages. */
export function claimText(claim: Claim): string {
  if (claim.kind !== 'permits') return modeOf(claim);
  return `${claim.weight} of ${claim.permits} permits`;
}
