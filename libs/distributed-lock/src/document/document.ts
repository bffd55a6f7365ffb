import { type AcquireRequest, type Claim, isExclusive, type TakeoverNotice } from '../port/lock-store.js';
import { LockStoreError } from '../port/lock.errors.js';
import { SILENT_WAITER_MS } from '../port/timing.js';

/**
 * A moment of the store's time in ms, or `inMs` after the write that stores it. The second form needs no estimate of the store's
 * time.
 */
export type Moment = number | { readonly inMs: number };

export interface Holder {
  readonly owner: string;
  readonly claim: Claim;
  /** First fencing token of the grant. */
  readonly token: number;
  readonly lastToken: number;
  /** End of the lease. */
  readonly until: Moment;
  /** Another client wrote the grant, and the owner has not confirmed it yet by a renewal or an acquire. */
  readonly isUnconfirmed?: boolean;
  /** The nonce that the owner stored when it waited. Its grant repeats it until the owner confirms the grant. */
  readonly nonce?: string;
  /**
   * Length of the lease in ms, on etcd and ZooKeeper, which end no lease themselves. There `until` is infinite until the session
   * is over.
   */
  readonly leaseMs?: number;
  /** Set while another owner takes the lock over from this holder. The holder's client learns of the takeover from the document. */
  readonly takeover?: Pick<TakeoverNotice, 'graceMs' | 'by'>;
  /**
   * The session of the owner's client, on etcd and ZooKeeper. A new entry has none: the register adds the session of the client
   * that writes it.
   */
  readonly session?: string;
}

export interface StoredWaiter {
  readonly owner: string;
  readonly claim: Claim;
  readonly leaseMs: number;
  /** How many fencing tokens its grant reserves. */
  readonly tokens: number;
  /** The largest fencing token that the waiter's client has seen. The tokens of its grant must be larger. */
  readonly minToken: number;
  readonly ticket: number;
  /** A secret of the waiter's client, which its grant must repeat, so that only somebody who can read documents can forge a grant. */
  readonly nonce: string;
  /** After this moment the waiter is dropped, because its owner has stopped waiting or rechecking. */
  readonly until: Moment;
  /** As `Holder.session`. */
  readonly session?: string;
}

/** The state of one key. The holders are either locks or permits, never both. The waiters are in order of their tickets. */
export interface LockDocument {
  readonly holders: readonly Holder[];
  readonly queue: readonly StoredWaiter[];
}

/**
 * What an owner that wants to wait leaves beside a document that it did not write itself. The next client that writes the
 * document adds the owner to the queue. A note with the ticket 0 gets `StoredNote.at` as its ticket.
 */
export interface Note extends Omit<StoredWaiter, 'until' | 'session'> {
  readonly waitMs: number;
}

export interface StoredNote extends Note {
  /** A number that grows from note to note of a key: microseconds of the store's time, or a revision. */
  readonly at: number;
  /** Id of the note, in a back end where a swap names the merged notes in order to delete them. */
  readonly id?: string;
  readonly session?: string;
}

/** A document and the notes beside it, as the back end had them at `now`. */
export interface Reading {
  /** Identifies this state of the document for `swap`. `undefined` only if no document exists: an acquire then uses `take`. */
  readonly version: number | undefined;
  /**
   * Grows with each write of this name, even if its document was deleted in between. A lane ignores a reading with a smaller one
   * than it has.
   */
  readonly order: number;
  readonly document: LockDocument;
  readonly notes: readonly StoredNote[];
  /** How far the notes were read, in the back end's own measure, such as the length of a column. */
  readonly notesRead: number;
  /** The document came in a message of another client. Notes that were left after that client had read them may be missing. */
  readonly mayLackNotes?: boolean;
  readonly lastToken: number;
  /** The store's time of this reading, in ms. */
  readonly now: number;
  /** A number of the store that only grows, such as its clock or its revision. New fencing tokens are larger. */
  readonly ticks: number;
  /** The ticket for an owner that the next write adds to the queue, unless the last ticket in the queue is larger. */
  readonly nextTicket: number;
  /** Until when, by our clock, the session of this client lasts for certain; absent without sessions. */
  readonly validUntil?: number;
}

/** A document, when this client sent the request for it, and when it arrived, in ms of the client's own clock. */
export interface TimedReading {
  readonly reading: Reading;
  /** `-Infinity` for a reading that came without a request, because nobody knows how old it is. */
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

/**
 * How many ms of the lease are left. On etcd and ZooKeeper no server ends a lease, so this is the whole length, an upper bound.
 * For a grant that is not confirmed yet, it is the time that its owner has left to confirm it.
 */
export function remainingOf({ until, leaseMs, isUnconfirmed }: Holder, now: number): number {
  const ms = typeof until === 'number' && leaseMs !== undefined ? leaseMs : leftOf(until, now);
  return isUnconfirmed && ms === 0 ? UNCONFIRMED_MS : ms;
}

/** The moment in the store's time, for a write that the store executed at `at`, in ms. */
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

/** Whether the claim does not fit the use of the key. A key is in use either as a lock or as permits, never as both. */
export function isOtherKind(claim: Claim, usedAs: Claim | undefined): boolean {
  return usedAs !== undefined && (usedAs.kind === 'permits') !== (claim.kind === 'permits');
}

/** @throws LockStoreError for permits of a key that is in use as a lock, and for a lock on a key that is in use as permits */
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
 * Whether the request leaves a note if the lock is not free. One with a finite `maxWaiting` leaves none: the client that merges
 * notes does not count the waiters, so the queue could grow beyond that limit.
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
