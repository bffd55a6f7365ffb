import type { Observable } from 'rxjs';
import type { Chance, Clock } from '../common/clock.js';
import type { LockStoreError } from './lock.errors.js';

/** Names the process behind a client of a store, so that people can find who holds a lock. Exclusion does not depend on it. */
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
 * An owner that holds a lock, and what is known about its process. The names are missing if the lock has been held for less than a
 * second, if the holder uses another library or `application: false`, and if the store keeps no holder entries. Other processes learn
 * `site` and `heldMs` of no more than 220 locks of a process: up to 200 that others wait for, and the 20 others that are held longest.
 */
export interface LockHolder {
  /** The id of the owner, as it is in the store. */
  readonly owner: string;
  readonly client?: LockClient;
  /** The method that acquired the lock, the option `site` of its call, or the line that called `acquire`. */
  readonly site?: string;
  /** How long the caller has held the lock, in ms. Computed from the clocks of two machines, so it is not exact. */
  readonly heldMs?: number;
}

/**
 * PORT: the requests that the core sends to a back end.
 *
 * One *owner* is one stay of one process with one key: it acquires, may wait in the queue, holds, and releases. Its id is never used
 * again. Every call may be repeated with the same arguments without harm.
 *
 * A rejected promise carries a `LockStoreError`. Unless its `reason` says otherwise, nobody knows whether the back end has executed the
 * request. A rejection never means "no": a busy key and a lost lock are replies.
 */
export interface LockStore {
  /** The name of the store in messages and events: `memory`, `redis`. */
  readonly name: string;
  /**
   * Where the locks are, for messages: host and port of the back end, without user and password. Absent for a back end without an
   * address.
   */
  readonly address?: string | undefined;
  /**
   * Settles when the first attempt to connect has ended. Present only if the store does not know its whole `address` before. Never
   * rejects.
   */
  readonly attempted?: Promise<void> | undefined;
  /** The first part of each owner id of this client. An owner id is `clientId:number`, with a number of any length. */
  readonly clientId: string;
  /**
   * The longest time in ms that one request to the back end takes. A call may need several: `release` repeats its request, and a store
   * that keeps each key in a document tries again if another client changed the document first.
   */
  readonly commandTimeoutMs: number;
  /**
   * The notifications that the back end sends without being asked. The core passes each of them to its owner. If one is lost, a waiter
   * learns of its grant when it rechecks after `recheckAfterMs`, and a holder learns of its loss by its next renewal. If the store finds
   * out that it may have lost some, it emits `gap`.
   */
  readonly notifications$: Observable<Notification>;

  /**
   * Acquires the lock, or puts the owner into the queue if it may wait. If the owner already holds the lock, the store grants it again.
   * The core calls this and `release` through `GuardedStore`.
   */
  acquire(request: AcquireRequest): Promise<AcquireReply>;
  /**
   * Restarts leases, all in one batch. Never rejects: there is one reply for each renewal, in the same order.
   *
   * An earlier renewal of the same owner may still be in flight, with a shorter lease. If the back end may execute it after this one, the
   * reply must not promise more than it leaves.
   *
   * An exclusive holder that renews with a `shared` claim downgrades its lock. The store then grants the readers in the queue.
   */
  renew(renewals: readonly Renewal[]): Promise<readonly RenewalReply[]>;
  /**
   * The owner releases its lock or leaves the queue. The store then grants the next waiter.
   *
   * Resolves as soon as it is certain that this owner does not hold the lock and never will. Until then the store repeats the request.
   * It gives up when enough time has passed since the first copy was answered or failed: one command, plus the lease or three rechecks,
   * whichever is longer. By then lease and ticket have expired, so it settles as the last copy did.
   */
  release(request: ReleaseRequest): Promise<ReleaseReply>;
  /** The holders and the queue of a key; `null` if it has neither. */
  inspect(key: string): Promise<LockSnapshot | null>;
  /** Rejects the calls in flight and closes the connections that the store has opened. A second call does nothing. */
  close(): Promise<void>;

  // A store may lack the methods below. `port/capabilities.ts` says which of them belong together, and rejects calls that a store cannot
  // serve.

  /**
   * Takes the lock from all of its holders or from those in `force.owners`, and grants the next waiter. Holders that use this library
   * get a `lost` notification. One atomic step finds the holders and removes them, so that nobody else loses the lock.
   */
  forceRelease?(key: string, force?: Force): Promise<ForceReply>;
  /**
   * Sends a holder that uses this library a `takeover` notification: it will lose the lock. Changes nothing else. The notification may
   * be lost, or may arrive after the owner has released.
   *
   * @returns `nobody to tell` if no process of this library works under that hold: it belongs to a foreign client, or is the rest of a
   * minimum hold
   */
  announceTakeover?(takeover: TakeoverNotice): Promise<'announced' | 'nobody to tell'>;
  /**
   * Gives the lock of a detached owner (`request.from`) to another owner, in one atomic step and under the same fencing token. A detached
   * owner is what a release with `holdUntil` leaves. A second request of the same owner is granted again.
   *
   * Absent for a back end that frees the lock of a detached owner when the client that detached it has gone, such as etcd.
   *
   * @returns `granted`, or `busy` if `request.from` does not hold the key under `request.token` any more. Nobody enters the queue
   */
  attach?(request: AttachRequest): Promise<AcquireReply>;
  /**
   * Stores the holder entry of this client: a string that names its process for people. Replaces the client's earlier entry, and expires
   * after `entry.leaseMs`. Locks do not depend on it. Absent for a back end that has no place for it.
   */
  publishHolderEntry?(entry: HolderEntry): Promise<void>;
  /**
   * Reads the holder entries of these clients, in the same order; `undefined` for a client without one. Present if `publishHolderEntry`
   * is.
   */
  readHolderEntries?(clientIds: readonly string[]): Promise<readonly (string | undefined)[]>;
  /**
   * Lists the keys that are held or waited for, a page at a time. A key that is acquired or released meanwhile may or may not be
   * listed. Absent for a back end that cannot find its keys.
   */
  list?(request: ListRequest): Promise<KeyPage>;
}

/** Creates a store. Store functions such as `redisStore(…)` return one, and open nothing until `create` is called. */
export interface LockStoreFactory {
  /** Opens a client of the back end for one `LockService`. Does not wait for a connection. */
  create(context: LockStoreContext): LockStore;
}

/** The parts that a service passes to `LockStoreFactory.create`. A store takes time, chance and ids from them only. */
export interface LockStoreContext {
  /** The only source of time that a store may use. */
  readonly clock: Clock;
  /** The only source of random numbers and ids that a store may use; default: that of the machine. */
  readonly chance?: Chance;
  /** Text before each key: the name in the back end is exactly `keyPrefix + key`. */
  readonly keyPrefix: string;
  /** The longest lease that the watchdog asks for. A store checks its own timings against it. */
  readonly watchdogTimeoutMs: number;
  /** Names the process of this client. A store may name its connections by it. Absent if nobody is to know the process. */
  readonly client?: LockClient;
  /** The store calls this with a failure that no caller waits for. The service emits an `error` event. */
  readonly onError?: (during: string, error: LockStoreError) => void;
  /** The store calls this if its configuration works but is probably a mistake. The service emits a `warning` event. */
  readonly onWarning?: (message: string) => void;
  /** The store calls this when the back end becomes unreachable, and when it is reachable again. The service emits a `store` event. */
  readonly onState?: (state: StoreState) => void;
}

/** Whether a back end can be reached. A store that is reachable from the start reports nothing. */
export type StoreState =
  | { readonly isUp: false; readonly error: LockStoreError; readonly node?: number }
  | {
      readonly isUp: true;
      /** How long the back end could not be reached, in ms. */
      readonly afterMs: number;
      /** The number of the node in a quorum, from 1 on. Absent for other stores. */
      readonly node?: number;
    };

/** The request of an owner that wants a key. */
export interface AcquireRequest {
  /** Without the prefix of the store. */
  readonly key: string;
  /** The owner id, which is never used for another stay. */
  readonly owner: string;
  /**
   * How the owner wants to hold the key. `lock` (a mutex) and `exclusive` (the writer of a read-write lock): alone. `shared`: together
   * with other readers. `permits`: it takes `weight` permits of a semaphore.
   */
  readonly claim: Claim;
  /** Length of the lease in ms. */
  readonly leaseMs: number;
  /**
   * Whether the owner enters the queue if the lock is not free. It then sends the request again at least every second, and the store may
   * drop it from the queue if it has not done so for three seconds.
   */
  readonly mayWait: boolean;
  /**
   * The ticket of an earlier reply, by which the owner keeps its place even if the store has lost the queue; 0 the first time. The
   * queue is sorted by ticket. Tickets that stores give out are positive. A takeover presents a negative one, which is ahead of these.
   */
  readonly ticket: number;
  /**
   * How many fencing tokens to reserve for local hand-offs, at least 1. If the owner already holds the lock with fewer, the store
   * reserves the rest.
   */
  readonly tokens: number;
  /**
   * The owner enters the queue only if fewer than this many other owners wait there; otherwise the reply is `Busy`. The store decides
   * this in the atomic step that would enter the queue. An owner that is in the queue already stays. With this field `Queued` and
   * `Busy` say how many wait; `Infinity` asks only for that number. Absent: any number may wait.
   */
  readonly maxWaiting?: number;
}

/** The request of an owner that goes on with the lock of a detached owner. It does not wait. */
export interface AttachRequest extends AcquireRequest {
  /** The id of the detached owner, `placeholderOf` the owner that was detached. */
  readonly from: string;
  /** The fencing token of the lock. The grant has this one token. */
  readonly token: number;
}

/** Added to a reply if the store has sent the request more than once. */
export interface Repeated {
  /** An earlier copy of the request got no reply and may still be executed. So the core must release the owner, even after `busy`. */
  readonly mayComeLate?: boolean;
}

/** The owner holds the lock (`granted`), waits for it (`queued`), or neither (`busy`). */
export type AcquireReply = (Grant | Queued | Busy) & Repeated;

/** `Grant.validUntil` of a grant under which nobody may work before a renewal has confirmed it. */
export const CONFIRM_FIRST = -Infinity;

/** The owner holds the lock. */
export interface Grant {
  readonly kind: 'granted';
  /** The first fencing token of this grant. It identifies the grant in renewals. */
  readonly token: number;
  /** The last of the fencing tokens that were reserved for local hand-offs. */
  readonly lastToken: number;
  /**
   * Until when the owner may believe that it holds the lock, on the clock of the context. The margin for clock drift is already taken
   * off.
   */
  readonly validUntil: number;
  /** How many owners wait in the queue behind this one. */
  readonly waiting: number;
  /** False for a grant by notification, which has only an initial lease until a renewal confirms it. */
  readonly confirmed: boolean;
}

/** The owner waits in the queue. The store notifies it of its grant. */
export interface Queued {
  readonly kind: 'queued';
  /** The owner's place in the queue. The owner presents it in each recheck. */
  readonly ticket: number;
  /** One of the holders; `undefined` if the lock is free but reserved for others that have waited longer. */
  readonly holder: string | undefined;
  /** The remaining lease of that holder, in ms; `Infinity` for a lease without an end. */
  readonly remainingMs: number;
  /** The owner rechecks after this many ms at the latest, even if no notification comes. */
  readonly recheckAfterMs: number;
  /** How many other owners wait in the queue, without those that have stopped rechecking. Present if the request has `maxWaiting`. */
  readonly waiting?: number;
}

/**
 * The owner has not got the lock and is not in the queue: others hold the lock or wait for it, and the request may not wait, or
 * `maxWaiting` others wait already.
 */
export interface Busy {
  readonly kind: 'busy';
  /** One of the holders; `undefined` if the lock is free but reserved for others that have waited longer. */
  readonly holder: string | undefined;
  /** The remaining lease of that holder, in ms; `Infinity` for a lease without an end. */
  readonly remainingMs: number;
  /** How many other owners wait. Present if the request has `maxWaiting` and may wait. */
  readonly waiting?: number;
}

/** The request of a holder to restart its lease. */
export interface Renewal {
  readonly key: string;
  readonly owner: string;
  readonly claim: Claim;
  /** Length of the new lease in ms. */
  readonly leaseMs: number;
  /** `Grant.token` of the grant that is renewed. If the owner holds the lock under another grant by now, the store replies `lost`. */
  readonly token: number;
  readonly lastToken: number;
}

/** `unknown`: the store did not reply, so the lease may or may not have been renewed. */
export type RenewalReply =
  | { readonly kind: 'renewed'; readonly validUntil: number; readonly waiting: number }
  | { readonly kind: 'lost' }
  | { readonly kind: 'unknown'; readonly error: LockStoreError };

/** The request of an owner to give up its lock or its place in the queue. */
export interface ReleaseRequest {
  readonly key: string;
  readonly owner: string;
  readonly claim: Claim;
  /** Length of the lease in ms. It bounds how long the store repeats a release that gets no reply. */
  readonly leaseMs: number;
  /** The last fencing token used, and the last one of the grant. The store takes back the tokens between them. Absent if there are none. */
  readonly used?: { readonly token: number; readonly lastToken: number } | undefined;
  /**
   * End of the minimum hold, on the clock of the context. Until then the store grants the key to no other owner. If the owner holds the
   * lock, the store makes the owner id `placeholderOf(owner)` the holder until that time, so that a late request of the owner itself
   * finds that it no longer holds. If the owner has lost the lock, the store ignores this field.
   */
  readonly holdUntil?: number | undefined;
  /**
   * How soon the store sends the request. `now`: ahead of other requests, because other processes wait for the lock. `when idle`: at
   * once if no other request is in flight, because a caller awaits the reply. Absent: the store may collect it into a batch.
   */
  readonly flush?: 'now' | 'when idle' | undefined;
}

/**
 * The owner id that holds the key for the rest of a minimum hold, or until a detached lock is attached. No request is ever sent with this
 * id as its owner.
 */
export function placeholderOf(owner: string): string {
  return owner.replace(':', ':-');
}

export function isPlaceholder(owner: string): boolean {
  return owner.includes(':-');
}

/**
 * `not held`: the owner did not hold the lock. `unknown`: it does not now, but an earlier reply was lost, so the store cannot say
 * whether it held the lock until this call.
 */
export type ReleaseReply = 'released' | 'not held' | 'unknown';

/** Whose lock is taken by force, and who takes it. */
export interface Force {
  /** Only these owners lose the lock; absent: all holders. An empty list takes the lock from nobody. */
  readonly owners?: readonly string[];
  /** Who takes it, for people to read. If the store has a place for it, the `lost` notification repeats it. */
  readonly by?: string;
}

/** `held by another`: none of `Force.owners` holds the lock, but somebody else does. */
export type ForceReply = 'released' | 'not held' | 'held by another';

/** A message that a store sends to an owner without being asked. */
export type Notification =
  /** The owner was waiting and now holds the lock. */
  | ({ readonly owner: string } & Grant)
  /** Other owners wait in the queue behind this holder. */
  | { readonly kind: 'contended'; readonly owner: string; readonly waiting: number }
  /** The lock was taken from this owner. `by` says who took it, for people to read. */
  | { readonly kind: 'lost'; readonly owner: string; readonly by?: string }
  /** Another owner is taking the lock over from this holder, which will lose it in `graceMs`. May come more than once. */
  | ({ readonly kind: 'takeover' } & Omit<TakeoverNotice, 'key'>)
  /** The owner is to recheck after `afterMs`. Without an owner, all waiting owners of the client are. */
  | { readonly kind: 'recheck'; readonly owner?: string; readonly afterMs: number }
  /**
   * Notifications to any owner of this client may have been lost. All waiting owners recheck at once, and all leases under the watchdog
   * are renewed at once: the replies say what the notifications would have said.
   */
  | { readonly kind: 'gap'; readonly owner?: undefined };

/** Announces to the holder of a key that it will lose the lock to an owner at the head of the queue. */
export interface TakeoverNotice {
  readonly key: string;
  /** The owner id of the holder. */
  readonly owner: string;
  /** How long the holder's work may still take, in ms. */
  readonly graceMs: number;
  /** Who takes the lock over, for people to read. */
  readonly by: string;
}

/** The text that a client publishes about its process and its holders, so that people can see who holds a lock. */
export interface HolderEntry {
  /** `clientId` of the store. For a node of a quorum it is the `clientId` of the quorum store. */
  readonly clientId: string;
  /** The entry as a string of some kilobytes at most, which the store keeps unchanged. Only the core writes and reads it. */
  readonly text: string;
  /** How long the store keeps it, in ms. */
  readonly leaseMs: number;
}

/** Which keys to list. */
export interface ListRequest {
  /** List only keys that begin with this text, without the prefix of the store; `''` for all. */
  readonly prefix: string;
  /** About how many entries of the back end to look through for one page. */
  readonly limit: number;
  /** `cursor` of the previous page; absent for the first page. */
  readonly cursor?: string;
}

/** One page of the keys that are held or waited for. */
export interface KeyPage {
  /** About as many as were asked for, or fewer; may be empty before the last page. */
  readonly entries: readonly LockSnapshot[];
  /** Keys of the page whose state this release cannot read. */
  readonly unreadable: readonly UnreadableKey[];
  /** Pass this to get the next page. Absent on the last one. */
  readonly cursor?: string;
}

/** A key whose stored state this release cannot parse, so `list()` cannot say whether it is held. */
export interface UnreadableKey {
  /** The key, without the prefix of the store. */
  readonly key: string;
  /** Why it cannot be read, and what to do. */
  readonly message: string;
}

/** The state of a key in the store: its holders and its queue. */
export interface LockSnapshot {
  /** The key, without the prefix of the store. */
  readonly key: string;
  /** How it is held: `'exclusive'`, `'shared'` or `'permits'`; `undefined` while it is free. */
  readonly mode: 'exclusive' | 'shared' | 'permits' | undefined;
  /** The ids of the owners that hold it, as written in the store. */
  readonly holders: readonly string[];
  /**
   * The remaining time of the lease that ends first, in ms; for readers on Redis, of the one that ends last. `Infinity` if no lease
   * ends, 0 while the key is free.
   */
  readonly remainingMs: number;
  /**
   * The owners in the store's queue, in order: one for each other process that waits, or one for each of its `fair` callers that
   * rechecks. Callers that wait inside the holder's process are not among them, because no store knows of them.
   */
  readonly pending: readonly string[];
  /** A fencing token of the newest grant; `undefined` if the store has none for the key. */
  readonly fencingToken: number | undefined;
}

/** How an owner wants to hold its key. It never changes, except that an exclusive holder may downgrade to `shared`. */
export type Claim =
  /** One owner holds alone. `exclusive` is the writer's side of a read-write lock, which some stores keep in another format than `lock`. */
  | { readonly kind: 'lock' }
  | { readonly kind: 'exclusive' }
  /** The owner holds together with all other `shared` owners. */
  | { readonly kind: 'shared' }
  /**
   * The owner takes `weight` permits of a semaphore. Each request is checked against its own `permits`, which may differ between
   * callers.
   */
  | { readonly kind: 'permits'; readonly permits: number; readonly weight: number };

export const LOCK: Claim = { kind: 'lock' };
export const SHARED: Claim = { kind: 'shared' };

/** How a lock is held: alone, with other readers, or with others up to a number. */
export function modeOf({ kind }: Claim): 'exclusive' | 'shared' | 'permits' {
  return kind === 'lock' ? 'exclusive' : kind;
}

/** Whether the claim allows only one holder at a time. */
export function isExclusive(claim: Claim): claim is Extract<Claim, { kind: 'lock' | 'exclusive' }> {
  return claim.kind === 'lock' || claim.kind === 'exclusive';
}

/** Whether a holder with the claim `held` already has what `wanted` asks for. */
export function covers(held: Claim, wanted: Claim): boolean {
  if (isExclusive(held)) return wanted.kind !== 'permits';
  if (held.kind === 'permits') return wanted.kind === 'permits' && wanted.weight <= held.weight;
  return wanted.kind === 'shared';
}
