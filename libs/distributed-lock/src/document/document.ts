import type { AcquireRequest, TakeoverNotice } from '../port/lock-store.js';
import { type Claim, isExclusive } from '../port/lock-store.js';
import { LockStoreError } from '../port/lock.errors.js';
import { SILENT_WAITER_MS } from '../port/timing.js';

/** A moment of the store's time in ms, or `inMs` after the write that stores it, which needs no estimate of that time. */
export type Moment = number | { readonly inMs: number };

export interface Holder {
  readonly owner: string;
  readonly claim: Claim;
  /** First fencing token of the grant. */
  readonly token: number;
  readonly lastToken: number;
  /** End of the lease. */
  readonly until: Moment;
  /** Another client wrote the grant, and no renewal of the owner has confirmed it yet. */
  readonly isUnconfirmed?: boolean;
  /** The nonce of the waiter that was granted the lock, until its owner confirms the grant. */
  readonly nonce?: string;
  /** Length of the lease in ms, in a back end that ends no lease: `until` is infinite until the session is over. */
  readonly leaseMs?: number;
  /** Set while another owner takes the lock over from this holder. Its client learns of the takeover from the document. */
  readonly takeover?: Pick<TakeoverNotice, 'graceMs' | 'by'>;
  /** The session of the owner's client. A new entry has none: the register adds the session of the client that writes it. */
  readonly session?: string;
}

export interface StoredWaiter {
  readonly owner: string;
  readonly claim: Claim;
  readonly leaseMs: number;
  /** How many fencing tokens to reserve. */
  readonly tokens: number;
  /** The largest fencing token that its client has seen. The tokens of its grant are larger. */
  readonly minToken: number;
  readonly ticket: number;
  /** A secret of its client, which each grant of the waiter repeats. So only who may read documents can forge a grant. */
  readonly nonce: string;
  /** The waiter is dropped after this time, because its owner has stopped waiting or rechecking. */
  readonly until: Moment;
  /** As in `Holder`. */
  readonly session?: string;
}

/** The state of one key. Holders are all of one kind; waiters are in order of their tickets. */
export interface LockDocument {
  readonly holders: readonly Holder[];
  readonly queue: readonly StoredWaiter[];
}

/**
 * The note of an owner that wants to wait. The owner leaves it beside the document, and the next writer adds the owner to
 * the queue. A note without a ticket (0) gets the moment at which it was left, in microseconds of the store's time.
 */
export interface Note extends Omit<StoredWaiter, 'until' | 'session'> {
  readonly waitMs: number;
}

export interface StoredNote extends Note {
  /** A number that grows with each note: microseconds of the store's time, or its revision. */
  readonly at: number;
  /** Names the note in a back end where a swap deletes merged notes by their ids. */
  readonly id?: string;
  readonly session?: string;
}

/** A document as the back end had it at `now`. */
export interface Reading {
  /** Names this state of the document for `swap`; `undefined` only if no document exists. An acquire then uses `take`. */
  readonly version: number | undefined;
  /** Grows with each write of this name, also if its document was deleted in between. A lane drops a reading with a smaller one. */
  readonly order: number;
  readonly document: LockDocument;
  readonly notes: readonly StoredNote[];
  /** How much of the notes was read, in the back end's own measure. */
  readonly notesRead: number;
  /** Another client has sent the document with a message: notes that were left since that client read them may be missing. */
  readonly mayLackNotes?: boolean;
  readonly lastToken: number;
  /** The store's time of this reading, in ms. */
  readonly now: number;
  /** A number of the store that only grows: fencing tokens are larger than it. */
  readonly ticks: number;
  /** The ticket of an owner that enters the queue by the next write, unless the last ticket in the queue is larger. */
  readonly nextTicket: number;
  /** Until when, on the client's clock, its session stays for certain; absent without sessions. */
  readonly validUntil?: number;
}

/** A document, and when this client asked for it and got it, in ms of its own clock. */
export interface TimedReading {
  readonly reading: Reading;
  /** `-Infinity` for a reading that came without a request, because its age is unknown. */
  readonly sentAt: number;
  readonly receivedAt: number;
}

/** On etcd and ZooKeeper an owner has this many ms to confirm a grant that another client wrote. */
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

/**
 * How many ms of the lease are left. On etcd and ZooKeeper no server ends a lease, so this is its whole length, an upper bound.
 * For an unconfirmed grant it is the time that its owner has left to confirm it.
 */
export function remainingOf({ until, leaseMs, isUnconfirmed }: Holder, now: number): number {
  const ms = typeof until === 'number' && leaseMs !== undefined ? leaseMs : leftOf(until, now);
  return isUnconfirmed && ms === 0 ? UNCONFIRMED_MS : ms;
}

/** The moment in the store's time, for a write that the store stamped with `at`, in ms. */
function resolve(moment: Moment, at: number): number {
  return typeof moment === 'number' ? moment : at + moment.inMs;
}

export function resolveAll({ holders, queue }: LockDocument, at: number): LockDocument {
  return {
    holders: holders.map((holder) => ({ ...holder, until: resolve(holder.until, at) })),
    queue: queue.map((waiter) => ({ ...waiter, until: resolve(waiter.until, at) })),
  };
}

/** Whether an owner with this claim may hold the key beside these holders. */
export function mayEnter(claim: Claim, holders: readonly Claimed[]): boolean {
  if (isExclusive(claim)) return holders.length === 0;
  if (claim.kind === 'shared') return holders.every((holder) => holder.claim.kind === 'shared');
  const taken = holders.reduce((sum, holder) => sum + weightOf(holder.claim), 0);
  return taken + claim.weight <= claim.permits;
}

/** Permits are counted, locks are not: a key is used in one of the two ways at a time. */
export function isOtherKind(claim: Claim, usedAs: Claim | undefined): boolean {
  return usedAs !== undefined && (usedAs.kind === 'permits') !== (claim.kind === 'permits');
}

/** @throws LockStoreError when the key is in use as the other kind of lock */
export function checkKind(
  { key, claim }: Claimed & { readonly key: string },
  usedAs: Claim | undefined,
): void {
  if (!isOtherKind(claim, usedAs)) return;
  const [asked, used] = claim.kind === 'permits' ? ['permits', 'a lock'] : ['a lock', 'permits'];
  const message = `Could not acquire "${key}" as ${asked}: it is in use as ${used}. Give the two different keys.`;
  throw new LockStoreError(message, key, 'refused');
}

interface Claimed {
  readonly claim: Claim;
}

function weightOf(claim: Claim): number {
  return claim.kind === 'permits' ? claim.weight : 0;
}

/**
 * Whether the request leaves a note if the lock is not free. The writer that merges a note counts no waiters, so a request with a
 * finite `maxWaiting` leaves none.
 */
export function leavesNote({ waitMs, maxWaiting = Infinity }: AcquireRequest): boolean {
  return waitMs > 0 && maxWaiting === Infinity;
}

export function noteOf(request: AcquireRequest, { minToken, nonce }: Pick<Note, 'minToken' | 'nonce'>): Note {
  const { owner, claim, leaseMs, tokens, ticket } = request;
  return {
    owner,
    claim,
    leaseMs,
    tokens,
    minToken,
    ticket,
    nonce,
    waitMs: Math.min(request.waitMs, SILENT_WAITER_MS),
  };
}
