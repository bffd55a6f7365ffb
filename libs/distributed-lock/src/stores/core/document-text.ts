import type { Claim } from '../../port/claim.js';
import type { AcquireRequest } from '../../port/lock-store.js';
import { LockStoreError } from '../../port/lock.errors.js';
import {
  FREE,
  isFree,
  resolve,
  type Holder,
  type LockDocument,
  type Moment,
  type Note,
  type StoredNote,
  type Waiter,
} from './document.js';

/** First element of each text. Two releases of this library that write different formats refuse each other's documents. */
const FORMAT = 1;

export type ClaimText = 'l' | 'x' | 's' | readonly [permits: number, weight: number];
/** A number is a moment of the store's time. `+ms` counts from the write. `null` never comes. */
type MomentText = number | string | null;
type HolderText = readonly [
  owner: string,
  claim: ClaimText,
  token: number,
  lastToken: number,
  until: MomentText,
  nonce?: string,
  isUnconfirmed?: 1,
];
type WaiterText = readonly [
  owner: string,
  claim: ClaimText,
  leaseMs: number | null,
  tokens: number,
  minToken: number,
  ticket: number,
  nonce: string,
  until: MomentText,
];
type NoteText = readonly [
  owner: string,
  claim: ClaimText,
  leaseMs: number | null,
  tokens: number,
  minToken: number,
  ticket: number,
  nonce: string,
  waitMs: number,
  at: number,
];

/** One row, as a back end keeps it that cannot read a document itself. */
export interface Row {
  /** `null` for a free document. */
  readonly state: string | null;
  /** The notes, each as `noteText` wrote it, then `at` in microseconds and `],`. */
  readonly notes: string;
  readonly lastToken: number;
  /** Microseconds of the store's time when `state` was written. */
  readonly at: number;
}

/** @returns `null` for a free document */
export function documentText(document: LockDocument): string | null {
  if (isFree(document)) return null;
  return JSON.stringify([FORMAT, document.holders.map(holderText), document.queue.map(waiterText)]);
}

/**
 * The document of a lock that was free, for a back end that counts the token as it writes: first token 0 stands for the
 * first of those that end with the last token of the row.
 */
export function takenText({ owner, claim, leaseMs, tokens }: AcquireRequest): string {
  const holder: Holder = { owner, claim, token: 0, lastToken: tokens, until: { inMs: leaseMs } };
  return JSON.stringify([FORMAT, [holderText(holder)], []]);
}

/** The note without its end: the back end adds the microseconds of its time, and `],`. */
export function noteText({ owner, claim, leaseMs, tokens, minToken, ticket, nonce, waitMs }: Note): string {
  const text = [owner, claimText(claim), finite(leaseMs), tokens, minToken, ticket, nonce, Math.ceil(waitMs)];
  return `${JSON.stringify(text).slice(0, -1)},`;
}

/** @throws LockStoreError for a document of another format */
export function documentIn(row: Row, key: string): LockDocument {
  return readStored(key, () => documentOf(row, key));
}

function documentOf({ state, lastToken, at }: Row, key: string): LockDocument {
  if (state === null) return FREE;
  const [format, holders, queue] = JSON.parse(state) as [number, HolderText[], WaiterText[]];
  checkFormat(format, FORMAT, key);
  const stampMs = at / 1000;
  return {
    holders: holders.map(([owner, claim, token, last, until, nonce, isUnconfirmed]) => ({
      owner,
      claim: claimIn(claim),
      token: token === 0 ? lastToken - last + 1 : token,
      lastToken: token === 0 ? lastToken : last,
      until: resolve(momentIn(until), stampMs),
      ...(nonce !== undefined && { nonce }),
      ...(isUnconfirmed && { isUnconfirmed: true }),
    })),
    queue: queue.map(([owner, claim, leaseMs, tokens, minToken, ticket, nonce, until]) => ({
      owner,
      claim: claimIn(claim),
      leaseMs: leaseMs ?? Infinity,
      tokens,
      minToken,
      ticket,
      nonce,
      until: resolve(momentIn(until), stampMs),
    })),
  };
}

/** @throws LockStoreError for notes that this library has not written */
export function notesIn({ notes }: Row, key: string): readonly StoredNote[] {
  if (notes === '') return [];
  const read = () => JSON.parse(`[${notes.slice(0, -1)}]`) as NoteText[];
  return readStored(key, read).map(
    ([owner, claim, leaseMs, tokens, minToken, ticket, nonce, waitMs, at]) => ({
      owner,
      claim: claimIn(claim),
      leaseMs: leaseMs ?? Infinity,
      tokens,
      minToken,
      ticket,
      nonce,
      waitMs,
      at,
    }),
  );
}

/** @throws LockStoreError for another format than that of this release */
export function checkFormat(format: unknown, own: number, key: string): void {
  if (format === own) return;
  throw new LockStoreError(
    `The lock "${key}" is written in format ${String(format)}, and this release reads format ${own}. Use the same release of nestjs-distributed-lock in all processes, or another table, root or keyPrefix.`,
    key,
    'refused',
  );
}

function holderText({ owner, claim, token, lastToken, until, nonce, isUnconfirmed }: Holder): HolderText {
  const text = [owner, claimText(claim), token, lastToken, momentText(until)] as const;
  if (nonce === undefined) return text;
  return isUnconfirmed ? [...text, nonce, 1] : [...text, nonce];
}

function waiterText({ owner, claim, leaseMs, tokens, minToken, ticket, nonce, until }: Waiter): WaiterText {
  return [owner, claimText(claim), finite(leaseMs), tokens, minToken, ticket, nonce, momentText(until)];
}

export function claimText(claim: Claim): ClaimText {
  switch (claim.kind) {
    case 'lock':
      return 'l';
    case 'exclusive':
      return 'x';
    case 'shared':
      return 's';
    case 'permits':
      return [claim.permits, claim.weight];
  }
}

export function claimIn(text: ClaimText): Claim {
  if (typeof text === 'object') return { kind: 'permits', permits: text[0], weight: text[1] };
  return text === 'l' ? { kind: 'lock' } : text === 'x' ? { kind: 'exclusive' } : { kind: 'shared' };
}

/**
 * @param read may throw anything on data of others
 * @throws LockStoreError
 */
export function readStored<Content>(key: string, read: () => Content): Content {
  try {
    return read();
  } catch (cause) {
    if (cause instanceof LockStoreError) throw cause;
    const message = `What the store has for the lock "${key}" is other data, or was changed by hand. While nobody holds the lock, delete it.`;
    throw new LockStoreError(message, key, 'refused', { cause });
  }
}

/** JSON has no infinity. */
export function finite(ms: number): number | null {
  return ms === Infinity ? null : ms;
}

function momentText(moment: Moment): MomentText {
  if (typeof moment === 'number') return finite(moment);
  return moment.inMs === Infinity ? null : `+${moment.inMs}`;
}

function momentIn(text: MomentText): Moment {
  if (typeof text === 'string') return { inMs: Number(text) };
  return text ?? Infinity;
}
