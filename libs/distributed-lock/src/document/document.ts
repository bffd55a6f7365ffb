import type { AcquireRequest, AttachRequest, Claim, TakeoverNotice } from '../port/lock-store.js';
import { SILENT_WAITER_MS } from '../port/timing.js';

// Words of the stores of documents:
//
// - document: the whole state of one key, which the back end writes as one value.
// - register: the back end as an atomic register (see `Register`). It has three operations: `read`, `swap` (compare-and-swap), and
//   `take` (test-and-set: grants a free lock without reading it first).
// - note: a request to join the queue, stored beside the document by an owner whose client did not write the document. The next
//   client that writes the document moves the owner into the queue.
// - lane: does all work of one client on one document, one request at a time.

/** A time of the store's clock in ms, or `inMs` after the write that stores it: the client cannot know the store's time exactly. */
export type Moment = number | { readonly inMs: number };

export interface Holder {
  readonly owner: string;
  readonly claim: Claim;
  /** First fencing token of the grant. */
  readonly token: number;
  readonly lastToken: number;
  /** End of the lease. */
  readonly until: Moment;
  /** Another client wrote this grant. The owner confirms it by its next renewal or acquire. */
  readonly isUnconfirmed?: boolean;
  /** Copied from the owner's entry in the queue by the client that grants the lock. Removed when the owner confirms the grant. */
  readonly nonce?: string;
  /**
   * Length of the lease in ms. Only on etcd and ZooKeeper, where the owner's client ends the lease by a timer, and `until` is
   * infinite as long as the session of that client lives.
   */
  readonly leaseMs?: number;
  /** Set when another owner has announced that it will take the lock over, so that this holder can stop in time. */
  readonly takeover?: Pick<TakeoverNotice, 'graceMs' | 'by'>;
  /** The session of the owner's client, on etcd and ZooKeeper. Absent in a new entry until the register writes the document. */
  readonly session?: string;
}

export interface StoredWaiter {
  readonly owner: string;
  readonly claim: Claim;
  readonly leaseMs: number;
  /** How many fencing tokens the waiter's grant reserves. */
  readonly tokens: number;
  /** The largest fencing token that the waiter's client has seen. The tokens of its grant must be larger. */
  readonly minToken: number;
  readonly ticket: number;
  /** A secret of the waiter's client. Only a grant that repeats it counts, so to forge one you must be able to read documents. */
  readonly nonce: string;
  /** When the owner stops waiting, or has not rechecked in time: other clients then drop it from the queue. */
  readonly until: Moment;
  readonly session?: string;
}

/** The state of one key. Its holders hold either a lock or permits, never some of each. Its waiters are in order of their tickets. */
export interface LockDocument {
  readonly holders: readonly Holder[];
  readonly queue: readonly StoredWaiter[];
}

/** A request to join the queue, which is stored beside the document. If its ticket is 0, `StoredNote.at` becomes the ticket. */
export interface Note extends Omit<StoredWaiter, 'until' | 'session'> {
  readonly waitMs: number;
  /** If so many other owners wait when a client reads the note, the owner does not join the queue. Absent without a limit. */
  readonly maxWaiting?: number;
}

export interface StoredNote extends Note {
  /** Grows from note to note of a key: the store's time in microseconds, or the revision that stored the note. */
  readonly at: number;
  /** Set only in back ends where a swap deletes the merged notes by their ids. */
  readonly id?: string;
  readonly session?: string;
}

/** A document and the notes beside it, as a client read them from the back end. */
export interface Reading {
  /** `swap` writes only if the document still has this version. `undefined`: no document exists, so an acquire must use `take`. */
  readonly version: number | undefined;
  /** Grows with each write under this name, even across a deletion of the document, so that a lane recognizes an older reading. */
  readonly order: number;
  readonly document: LockDocument;
  readonly notes: readonly StoredNote[];
  /** How many notes this reading contains, in a unit of the back end, such as the length of the SQL column. `swap` keeps later ones. */
  readonly notesRead: number;
  /** The document came in another client's message, so notes that were stored meanwhile may be missing here. */
  readonly mayLackNotes?: boolean;
  readonly lastToken: number;
  /** The store's time of this reading, in ms. */
  readonly now: number;
  /** A number of the store that only grows, such as its clock or its revision. Each new fencing token is larger. */
  readonly ticks: number;
  /** The ticket for the owner that the next write adds to the queue, unless the last waiter has a larger one. */
  readonly nextTicket: number;
  /** Until when, by our clock, the session of this client lasts for certain; absent without sessions. */
  readonly validUntil?: number;
}

/** A reading, with the moments (in ms of this client's clock) when this client sent the request for it and when the reply arrived. */
export interface TimedReading {
  readonly reading: Reading;
  /** `-Infinity` if the document came without a request of ours: nobody then knows how old it is. */
  readonly sentAt: number;
  readonly receivedAt: number;
}

/** How long, in ms, an owner on etcd and ZooKeeper has to confirm a grant that another client wrote. */
export const UNCONFIRMED_MS = 1000;

export const FREE: LockDocument = { holders: [], queue: [] };

export function isFree({ holders, queue }: LockDocument): boolean {
  return holders.length === 0 && queue.length === 0;
}

export function clientOf(owner: string): string {
  return owner.slice(0, owner.indexOf(':'));
}

export function clientsOf(entries: readonly { readonly owner: string }[]): readonly string[] {
  return [...new Set(entries.map(({ owner }) => clientOf(owner)))];
}

export function isOver(moment: Moment, now: number): boolean {
  return (typeof moment === 'number' ? moment : now + moment.inMs) <= now;
}

export function leftOf(moment: Moment, now: number): number {
  return typeof moment === 'number' ? moment - now : moment.inMs;
}

/** How many ms a lease still lasts at most, or for an unconfirmed grant, how long its owner has to confirm it. */
export function remainingOf({ until, leaseMs, isUnconfirmed }: Holder, now: number): number {
  const ms = typeof until === 'number' && leaseMs !== undefined ? leaseMs : leftOf(until, now);
  return isUnconfirmed && ms === 0 ? UNCONFIRMED_MS : ms;
}

/** Turns `inMs` into an absolute time of the store, for a write that the store executed at `at`. */
function resolve(moment: Moment, at: number): number {
  return typeof moment === 'number' ? moment : at + moment.inMs;
}

export function resolveAll({ holders, queue }: LockDocument, at: number): LockDocument {
  return {
    holders: holders.map((holder) => ({ ...holder, until: resolve(holder.until, at) })),
    queue: queue.map((waiter) => ({ ...waiter, until: resolve(waiter.until, at) })),
  };
}

/**
 * The document after the first grant of a free lock. Its token is 0, because only the back end knows the first token. Its last
 * token is the number of tokens.
 */
export function firstGrantOf({ owner, claim, leaseMs, tokens }: AcquireRequest): LockDocument {
  return {
    holders: [{ owner, claim, token: 0, lastToken: tokens, until: { inMs: leaseMs } }],
    queue: [],
  };
}

/** Whether the request goes on with a lock that was detached. It cannot be a `take`, which would grant a free lock. */
export function isAttach(request: AcquireRequest): request is AttachRequest {
  return 'from' in request;
}

/**
 * Whether this request stores a note if the lock is not free. A request with a limit `maxWaiting` does so only after its client has
 * lost a swap: if it is refused, a further write must remove the note, and without a note a refusal costs no write at all.
 */
export function leavesNote({ mayWait, maxWaiting = Infinity }: AcquireRequest, lostSwaps: number): boolean {
  return mayWait && (maxWaiting === Infinity || lostSwaps > 0);
}

export function noteOf(request: AcquireRequest, { minToken, nonce }: Pick<Note, 'minToken' | 'nonce'>): Note {
  const { owner, claim, leaseMs, tokens, ticket, maxWaiting = Infinity } = request;
  return {
    owner,
    claim,
    leaseMs,
    tokens,
    minToken,
    ticket,
    nonce,
    waitMs: SILENT_WAITER_MS,
    ...(maxWaiting < Infinity && { maxWaiting }),
  };
}
