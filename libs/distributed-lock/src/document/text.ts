import type { AcquireRequest, Claim } from '../port/lock-store.js';
import { LockStoreError } from '../port/lock.errors.js';
import {
  FREE,
  type Holder,
  isFree,
  type LockDocument,
  type Moment,
  type Note,
  resolveAll,
  type StoredNote,
  type StoredWaiter,
} from './document.js';

/** First element of each document. A release of this library refuses documents in another format than its own. */
const FORMAT = 1;

type ClaimText = 'l' | 'x' | 's' | readonly [permits: number, weight: number];
/** A moment as JSON. A number is a time of the store's clock, in ms. `+ms` counts from the write. `null` is a moment that never comes. */
type MomentText = number | string | null;
export type HolderText = readonly [
  owner: string,
  claim: ClaimText,
  token: number,
  lastToken: number,
  until: MomentText,
  nonce?: string | null,
  isUnconfirmed?: 0 | 1,
  session?: string | null,
  graceMs?: number,
  by?: string,
];
type RequestText = readonly [
  owner: string,
  claim: ClaimText,
  leaseMs: number | null,
  tokens: number,
  minToken: number,
  ticket: number,
  nonce: string,
];
export type WaiterText = readonly [...RequestText, until: MomentText, session?: string];
type NoteText = readonly [...RequestText, waitMs: number, at: number];

/** A document in a row of a SQL table, for which `state` and `notes` are plain texts. */
interface StoredRow {
  /** The text of the document; `null` if it is free. */
  readonly state: string | null;
  /** The notes, one after the other: each as `noteText` wrote it, then its `at` in microseconds, then `],`. */
  readonly notes: string;
  readonly lastToken: number;
  /** Microseconds of the store's time when `state` was written. */
  readonly at: number;
}

/** @returns `null` for a free document */
export function documentText(document: LockDocument): string | null {
  if (isFree(document)) return null;
  return JSON.stringify([FORMAT, ...entriesText(document)]);
}

/**
 * The document of the first grant of a free lock, for a back end that assigns the tokens when it writes. In the text the first
 * token is 0, and the last token n means: n tokens, of which the last is `lastToken` of the row.
 */
export function takenText(request: AcquireRequest): string {
  return JSON.stringify([FORMAT, ...entriesText(takenBy(request))]);
}

/**
 * The document of the first owner of a free lock. Its token is 0, because only the back end knows the first token, and its last
 * token is the number of tokens.
 */
export function takenBy({ owner, claim, leaseMs, tokens }: AcquireRequest): LockDocument {
  return {
    holders: [{ owner, claim, token: 0, lastToken: tokens, until: { inMs: leaseMs } }],
    queue: [],
  };
}

/** The text of a note without its end. The back end appends the microseconds of its time, and `],`. */
export function noteText(note: Note): string {
  return `${JSON.stringify([...requestText(note), Math.ceil(note.waitMs)]).slice(0, -1)},`;
}

/** @throws LockStoreError for a document of another format */
export function documentIn(row: StoredRow, key: string): LockDocument {
  return readStored(key, () => documentOf(row, key));
}

function documentOf({ state, lastToken, at }: StoredRow, key: string): LockDocument {
  if (state === null) return FREE;
  const [format, holders, queue] = JSON.parse(state) as [number, HolderText[], WaiterText[]];
  checkFormat(format, FORMAT, key);
  const document = entriesIn(holders, queue, (tokens) => lastToken - tokens + 1);
  return resolveAll(document, at / 1000);
}

/** @throws LockStoreError for notes that this library has not written */
export function notesIn({ notes }: StoredRow, key: string): readonly StoredNote[] {
  if (notes === '') return [];
  const read = () => JSON.parse(`[${notes.slice(0, -1)}]`) as NoteText[];
  return readStored(key, read).map((text) =>
    Object.assign(requestIn(text), { waitMs: text[7], at: text[8] }),
  );
}

/** The holders and the waiters as JSON values, with their sessions if they have any. */
export function entriesText({ holders, queue }: LockDocument): readonly [HolderText[], WaiterText[]] {
  return [holders.map(holderText), queue.map(waiterText)];
}

/**
 * Reads back what `entriesText` has made. Ends of leases stay as they are written, absolute or relative.
 *
 * @param firstOf returns the first token of a grant of this many tokens, for an entry whose token is written as 0
 */
export function entriesIn(
  holders: readonly HolderText[],
  queue: readonly WaiterText[],
  firstOf: (tokens: number) => number,
): LockDocument {
  return { holders: holders.map((holder) => holderIn(holder, firstOf)), queue: queue.map(waiterIn) };
}

/** @throws LockStoreError for a format that this release cannot read */
export function checkFormat(format: unknown, own: number, key: string): void {
  if (format === own) return;
  throw new LockStoreError(
    `The lock "${key}" is written in format ${String(format)}, and this release reads format ${own}. Use the same release of nestjs-distributed-lock in all processes, or another table, root or keyPrefix.`,
    key,
    'refused',
  );
}

function holderText(holder: Holder): HolderText {
  const {
    owner,
    claim,
    token,
    lastToken,
    until,
    nonce = null,
    isUnconfirmed,
    session = null,
    takeover,
  } = holder;
  const text = [owner, claimText(claim), token, lastToken, momentText(until)] as const;
  const unconfirmed = isUnconfirmed ? 1 : 0;
  if (takeover) return [...text, nonce, unconfirmed, session, takeover.graceMs, asciiText(takeover.by)];
  if (session !== null) return [...text, nonce, unconfirmed, session];
  if (nonce === null) return text;
  return isUnconfirmed ? [...text, nonce, 1] : [...text, nonce];
}

function holderIn(
  [owner, claim, token, last, until, nonce, isUnconfirmed, session, graceMs, by]: HolderText,
  firstOf: (tokens: number) => number,
): Holder {
  const first = token === 0 ? firstOf(last) : token;
  const holder: { -readonly [Name in keyof Holder]: Holder[Name] } = {
    owner,
    claim: claimIn(claim),
    token: first,
    lastToken: token === 0 ? first + last - 1 : last,
    until: momentIn(until),
  };
  if (typeof nonce === 'string') holder.nonce = nonce;
  if (isUnconfirmed) holder.isUnconfirmed = true;
  if (typeof session === 'string') holder.session = session;
  if (typeof graceMs === 'number') holder.takeover = { graceMs, by: textIn(by ?? '') ?? 'another call' };
  return holder;
}

export function waiterText(waiter: StoredWaiter): WaiterText {
  const text = [...requestText(waiter), momentText(waiter.until)] as const;
  return waiter.session === undefined ? text : [...text, waiter.session];
}

export function waiterIn(text: WaiterText): StoredWaiter {
  const [, , , , , , , until, session] = text;
  const waiter = Object.assign(requestIn(text), { until: momentIn(until) });
  return session === undefined ? waiter : Object.assign(waiter, { session });
}

type Requested = Omit<StoredWaiter, 'until' | 'session'>;

function requestText({ owner, claim, leaseMs, tokens, minToken, ticket, nonce }: Requested): RequestText {
  return [owner, claimText(claim), finite(leaseMs), tokens, minToken, ticket, nonce];
}

function requestIn([owner, claim, leaseMs, tokens, minToken, ticket, nonce]:
  | RequestText
  | WaiterText
  | NoteText): Requested {
  return { owner, claim: claimIn(claim), leaseMs: leaseMs ?? Infinity, tokens, minToken, ticket, nonce };
}

function claimText(claim: Claim): ClaimText {
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

function claimIn(text: ClaimText): Claim {
  if (typeof text === 'object') return { kind: 'permits', permits: text[0], weight: text[1] };
  return text === 'l' ? { kind: 'lock' } : text === 'x' ? { kind: 'exclusive' } : { kind: 'shared' };
}

/**
 * Parses what the store has for a key.
 *
 * @param read parses it, and may throw any error if another program wrote the data
 * @throws LockStoreError in place of that error
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

/** JSON has no infinity, so `null` stands for it. */
function finite(ms: number): number | null {
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

/** The text as JSON with ASCII characters only, because the column of MySQL takes no others. */
export function asciiText(text: string): string {
  const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return JSON.stringify(text).replace(/[^\x20-\x7e]/g, escaped);
}

/** Reads a text that `asciiText` has made. @returns `undefined` for any other text: another program may have written the row */
export function textIn(ascii: string): string | undefined {
  try {
    const text: unknown = JSON.parse(ascii);
    return typeof text === 'string' ? text : undefined;
  } catch {
    return undefined;
  }
}
