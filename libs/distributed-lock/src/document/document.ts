import { type AcquireRequest, type Claim, isExclusive, type TakeoverNotice } from '../port/lock-store.js';
import { LockStoreError } from '../port/lock.errors.js';
import { SILENT_WAITER_MS } from '../port/timing.js';

/**
 * A moment: either an absolute time of the store's clock in ms, or `inMs` after the write that stores it. A client uses the second
 * form for a new lease, because it cannot know the store's time exactly.
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
  /** Another client wrote this grant, and the owner has not confirmed it yet: its next renewal or acquire does. */
  readonly isUnconfirmed?: boolean;
  /**
   * The nonce from the owner's entry in the queue. The client that grants the lock copies it into the grant. It goes when the
   * owner confirms the grant.
   */
  readonly nonce?: string;
  /**
   * Length of the lease in ms. Only on etcd and ZooKeeper. A document there has no end of a lease that the server could compare with its
   * clock, so the owner's client ends the lease by a timer. `until` is infinite as long as the session of that client lives.
   */
  readonly leaseMs?: number;
  /** Set when another owner has announced that it will take the lock over. This holder's client reads it here, and can stop in time. */
  readonly takeover?: Pick<TakeoverNotice, 'graceMs' | 'by'>;
  /**
   * The session of the owner's client, on etcd and ZooKeeper. Absent in a new entry: when the register writes the document, it
   * adds its own client's session.
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
  /**
   * A secret of the waiter's client. A grant counts only if it repeats the nonce, so that only somebody who can read documents can
   * forge a grant.
   */
  readonly nonce: string;
  /** When the owner stops waiting, or has not rechecked in time. After this moment other clients drop it from the queue. */
  readonly until: Moment;
  /** As `Holder.session`. */
  readonly session?: string;
}

/** The state of one key. Its holders hold either a lock or permits, never some of each. Its waiters are in order of their tickets. */
export interface LockDocument {
  readonly holders: readonly Holder[];
  readonly queue: readonly StoredWaiter[];
}

/**
 * A note is how an owner joins the queue when its client did not write the document: the client stores the note beside the
 * document, and the next client that writes the document moves the owner into the queue. If a note has the ticket 0, its
 * `StoredNote.at` becomes the ticket.
 */
export interface Note extends Omit<StoredWaiter, 'until' | 'session'> {
  readonly waitMs: number;
}

export interface StoredNote extends Note {
  /** Grows from note to note of a key: the store's time in microseconds, or the revision that stored the note. */
  readonly at: number;
  /** Set only in back ends where a swap deletes the notes that it merged one by one, by their ids. */
  readonly id?: string;
  readonly session?: string;
}

/** A document and the notes beside it, as a client read them from the back end at the store's time `now`. */
export interface Reading {
  /**
   * Identifies this state of the document: `swap` writes only if the document still has this version. `undefined` only if no
   * document exists, so that an acquire must use `take`.
   */
  readonly version: number | undefined;
  /**
   * Grows with each write under this name, even across a deletion of the document. A lane ignores a reading that has a smaller
   * `order` than the one it has.
   */
  readonly order: number;
  readonly document: LockDocument;
  readonly notes: readonly StoredNote[];
  /**
   * How many of the notes this reading contains, in a measure of the back end's own, such as the length of the SQL column. `swap`
   * keeps notes beyond it.
   */
  readonly notesRead: number;
  /**
   * The document came in another client's message and not in a reply to this client. Notes that were stored meanwhile may be
   * missing here.
   */
  readonly mayLackNotes?: boolean;
  readonly lastToken: number;
  /** The store's time of this reading, in ms. */
  readonly now: number;
  /** A number of the store that only grows, such as its clock or its revision. Each new fencing token is larger than this. */
  readonly ticks: number;
  /** The ticket for the owner that the next write adds to the queue. If the last waiter has a larger ticket, the owner gets that one. */
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

/**
 * How many ms a lease still lasts. On etcd and ZooKeeper no server ends leases, so this is the whole length of the lease, an upper
 * bound. For a grant that its owner has not confirmed, it is the time left to confirm it.
 */
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

/** Whether an owner that asks for `claim` may hold the key together with the present holders. */
export function mayEnter(claim: Claim, holders: readonly Claimed[]): boolean {
  if (isExclusive(claim)) return holders.length === 0;
  if (claim.kind === 'shared') return holders.every((holder) => holder.claim.kind === 'shared');
  const taken = holders.reduce((sum, holder) => sum + weightOf(holder.claim), 0);
  return taken + claim.weight <= claim.permits;
}

/** Whether the claim asks for permits of a key that is in use as a lock, or the reverse. Such claims cannot share a document. */
export function isOtherKind(claim: Claim, usedAs: Claim | undefined): boolean {
  return usedAs !== undefined && (usedAs.kind === 'permits') !== (claim.kind === 'permits');
}

/** @throws LockStoreError if the claim asks for permits of a key that is in use as a lock, or the reverse */
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
 * Whether this request stores a note if the lock is not free. A request with a limit `maxWaiting` does not: the client that merges
 * the note into the queue does not know the limit, so the queue could grow beyond it.
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
