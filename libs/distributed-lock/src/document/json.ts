import type { AcquireRequest, Claim } from '../port/lock-store.js';
import { LockStoreError } from '../port/lock.errors.js';
import {
  FREE,
  firstGrantOf,
  type Holder,
  isFree,
  type LockDocument,
  type Moment,
  type Note,
  resolveAll,
  type StoredNote,
  type StoredWaiter,
} from './document.js';

/** The first element of each stored document. This version of the library refuses documents of any other format. */
const FORMAT = 1;

type ClaimJson = 'l' | 'x' | 's' | readonly [permits: number, weight: number];
/** A number is a time of the store's clock in ms, `+ms` is that long after the write, and `null` never comes. */
type MomentJson = number | string | null;
type HolderJson = readonly [
  owner: string,
  claim: ClaimJson,
  token: number,
  lastToken: number,
  until: MomentJson,
  nonce?: string | null,
  isUnconfirmed?: 0 | 1,
  session?: string | null,
  graceMs?: number,
  by?: string,
];
type RequestJson = readonly [
  owner: string,
  claim: ClaimJson,
  leaseMs: number | null,
  tokens: number,
  minToken: number,
  ticket: number,
  nonce: string,
];
type WaiterJson = readonly [...RequestJson, until: MomentJson, session?: string];
export type EntriesJson = readonly [holders: HolderJson[], queue: WaiterJson[]];
/** The back end appends `at`, so `maxWaiting` stands before it. */
type NoteJson = readonly [...RequestJson, waitMs: number, ...limit: [] | [maxWaiting: number], at: number];

/** A row of a SQL table with a document. */
interface StoredRow {
  /** The text of the document; `null` if nobody holds the lock or waits for it. */
  readonly state: string | null;
  /** The notes, one after the other: each as `serializeNote` wrote it, then its `at` in microseconds, then `],`. */
  readonly notes: string;
  readonly lastToken: number;
  /** Microseconds of the store's time when `state` was written. */
  readonly at: number;
}

/** @returns the `state`; `null` for a document without holders and waiters */
export function serializeDocument(document: LockDocument): string | null {
  if (isFree(document)) return null;
  return JSON.stringify([FORMAT, ...serializeEntries(document)]);
}

/** The `state` after the first grant of a free lock. Its `token` is 0: readers count it back from the row's `lastToken`. */
export function serializeFirstGrant(request: AcquireRequest): string {
  return JSON.stringify([FORMAT, ...serializeEntries(firstGrantOf(request))]);
}

/** The JSON of a note without its end. The back end appends the time in microseconds, and `],`. */
export function serializeNote(note: Note): string {
  const { waitMs, maxWaiting } = note;
  const limit = maxWaiting === undefined ? [] : [maxWaiting];
  return `${JSON.stringify([...serializeRequest(note), Math.ceil(waitMs), ...limit]).slice(0, -1)},`;
}

/** @throws LockStoreError for a document of another format */
export function parseDocument({ state, lastToken, at }: StoredRow, key: string): LockDocument {
  if (state === null) return FREE;
  return parseStored(key, () => {
    const [format, ...entries] = JSON.parse(state) as [number, ...EntriesJson];
    checkFormat(format, FORMAT, key);
    return resolveAll(
      parseEntries(entries, (tokens) => lastToken - tokens + 1),
      at / 1000,
    );
  });
}

/** @throws LockStoreError for notes that this library has not written */
export function parseNotes({ notes }: StoredRow, key: string): readonly StoredNote[] {
  if (notes === '') return [];
  const read = () => JSON.parse(`[${notes.slice(0, -1)}]`) as NoteJson[];
  return parseStored(key, read).map((text) => {
    const [, , , , , , , waitMs, ...rest] = text;
    const limit = rest.length > 1 && { maxWaiting: rest[0] as number };
    return Object.assign(parseRequest(text), { waitMs, ...limit, at: rest.at(-1) as number });
  });
}

export function serializeEntries({ holders, queue }: LockDocument): EntriesJson {
  return [holders.map(serializeHolder), queue.map(serializeWaiter)];
}

/** @param firstOf returns the first token of a grant, given the number of its tokens. Called for entries whose token is written as 0 */
export function parseEntries(
  [holders, queue]: EntriesJson,
  firstOf: (tokens: number) => number,
): LockDocument {
  return { holders: holders.map((holder) => parseHolder(holder, firstOf)), queue: queue.map(parseWaiter) };
}

/** @throws LockStoreError for a format that this version of the library cannot read */
export function checkFormat(format: unknown, own: number, key: string): void {
  if (format === own) return;
  throw new LockStoreError(
    `The lock "${key}" is written in format ${String(format)}, and this release reads format ${own}. Use the same release of nestjs-distributed-lock in all processes, or another table, root or keyPrefix.`,
    key,
    'refused',
  );
}

function serializeHolder(holder: Holder): HolderJson {
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
  const json = [owner, serializeClaim(claim), token, lastToken, serializeMoment(until)] as const;
  const unconfirmed = isUnconfirmed ? 1 : 0;
  if (takeover) return [...json, nonce, unconfirmed, session, takeover.graceMs, toAsciiJson(takeover.by)];
  if (session !== null) return [...json, nonce, unconfirmed, session];
  if (nonce === null) return json;
  return isUnconfirmed ? [...json, nonce, 1] : [...json, nonce];
}

function parseHolder(
  [owner, claim, token, last, until, nonce, isUnconfirmed, session, graceMs, by]: HolderJson,
  firstOf: (tokens: number) => number,
): Holder {
  const first = token === 0 ? firstOf(last) : token;
  const holder: { -readonly [Name in keyof Holder]: Holder[Name] } = {
    owner,
    claim: parseClaim(claim),
    token: first,
    lastToken: token === 0 ? first + last - 1 : last,
    until: parseMoment(until),
  };
  if (typeof nonce === 'string') holder.nonce = nonce;
  if (isUnconfirmed) holder.isUnconfirmed = true;
  if (typeof session === 'string') holder.session = session;
  if (typeof graceMs === 'number')
    holder.takeover = { graceMs, by: fromAsciiJson(by ?? '') ?? 'another call' };
  return holder;
}

export function serializeWaiter(waiter: StoredWaiter): WaiterJson {
  const json = [...serializeRequest(waiter), serializeMoment(waiter.until)] as const;
  return waiter.session === undefined ? json : [...json, waiter.session];
}

export function parseWaiter(text: WaiterJson): StoredWaiter {
  const [, , , , , , , until, session] = text;
  const waiter = Object.assign(parseRequest(text), { until: parseMoment(until) });
  return session === undefined ? waiter : Object.assign(waiter, { session });
}

type Requested = Omit<StoredWaiter, 'until' | 'session'>;

function serializeRequest({
  owner,
  claim,
  leaseMs,
  tokens,
  minToken,
  ticket,
  nonce,
}: Requested): RequestJson {
  return [owner, serializeClaim(claim), finite(leaseMs), tokens, minToken, ticket, nonce];
}

function parseRequest([owner, claim, leaseMs, tokens, minToken, ticket, nonce]:
  | RequestJson
  | WaiterJson
  | NoteJson): Requested {
  return { owner, claim: parseClaim(claim), leaseMs: leaseMs ?? Infinity, tokens, minToken, ticket, nonce };
}

function serializeClaim(claim: Claim): ClaimJson {
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

function parseClaim(text: ClaimJson): Claim {
  if (typeof text === 'object') return { kind: 'permits', permits: text[0], weight: text[1] };
  return text === 'l' ? { kind: 'lock' } : text === 'x' ? { kind: 'exclusive' } : { kind: 'shared' };
}

/** @throws LockStoreError if `read` throws, because another program may have written the data that it parses */
export function parseStored<Content>(key: string, read: () => Content): Content {
  try {
    return read();
  } catch (cause) {
    if (cause instanceof LockStoreError) throw cause;
    const message = `What the store has for the lock "${key}" is other data, or was changed by hand. While nobody holds the lock, delete it.`;
    throw new LockStoreError(message, key, 'refused', { cause });
  }
}

/** JSON has no infinity. */
function finite(ms: number): number | null {
  return ms === Infinity ? null : ms;
}

function serializeMoment(moment: Moment): MomentJson {
  if (typeof moment === 'number') return finite(moment);
  return moment.inMs === Infinity ? null : `+${moment.inMs}`;
}

function parseMoment(text: MomentJson): Moment {
  if (typeof text === 'string') return { inMs: Number(text) };
  return text ?? Infinity;
}

/** JSON with ASCII characters only, because the text columns of MySQL accept no others. */
export function toAsciiJson(text: string): string {
  const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return JSON.stringify(text).replace(/[^\x20-\x7e]/g, escaped);
}

/** @returns `undefined` for a text that `toAsciiJson` has not made: another program may have written it */
export function fromAsciiJson(ascii: string): string | undefined {
  try {
    const text: unknown = JSON.parse(ascii);
    return typeof text === 'string' ? text : undefined;
  } catch {
    return undefined;
  }
}
