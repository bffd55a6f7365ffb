import type { AcquireRequest } from '../../port/lock-store.js';
import {
  checkFormat,
  claimIn,
  claimText,
  finite,
  readStored,
  type ClaimText,
} from '../core/document-text.js';
import type { Holder, LockDocument, Note, StoredNote, Waiter } from '../core/document.js';
import type { NoteRow } from './session-backend.js';

/** First element of each text. Two releases of this library that write different formats refuse each other's documents. */
const FORMAT = 1;

/** `null` is a lease without an end. */
type HolderText = readonly [
  owner: string,
  claim: ClaimText,
  token: number,
  lastToken: number,
  leaseMs: number | null,
  session: string,
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
  session: string,
];
type DocumentText = readonly [
  format: number,
  lastToken: number,
  holders: readonly HolderText[],
  queue: readonly WaiterText[],
];

/** What a text says, without what its reader knows: `until` is infinite. */
export interface TextContent {
  readonly document: LockDocument;
  readonly lastToken: number;
}

/** @param session that of the writer, for the entries that are new */
export function documentText({ holders, queue }: LockDocument, lastToken: number, session: string): string {
  const text: DocumentText = [
    FORMAT,
    lastToken,
    holders.map((holder) => holderText(holder, session)),
    queue.map((waiter) => waiterText(waiter, session)),
  ];
  return JSON.stringify(text);
}

/**
 * The document of a lock that was free. First token 0 stands for the revision of the write, or for the one after
 * `lastToken` if that is larger.
 */
export function takenText(request: AcquireRequest, lastToken: number, session: string): string {
  const { owner, claim, leaseMs, tokens } = request;
  const holder: Holder = { owner, claim, token: 0, lastToken: tokens, until: { inMs: leaseMs } };
  return documentText({ holders: [holder], queue: [] }, lastToken, session);
}

export function noteText(note: Note, session: string): string {
  const { owner, claim, leaseMs, tokens, minToken, ticket, nonce } = note;
  return JSON.stringify(waiterText({ owner, claim, leaseMs, tokens, minToken, ticket, nonce }, session));
}

/**
 * @param writtenAt the revision of the write
 * @throws LockStoreError for a document of another format
 */
export function contentOf(text: string, writtenAt: number, key: string): TextContent {
  return readStored(key, () => contentIn(text, writtenAt, key));
}

function contentIn(text: string, writtenAt: number, key: string): TextContent {
  const [format, last, holders, queue] = JSON.parse(text) as DocumentText;
  checkFormat(format, FORMAT, key);
  const document = {
    holders: holders.map((holder) => holderIn(holder, Math.max(writtenAt, last + 1))),
    queue: queue.map(waiterIn),
  };
  return {
    document,
    lastToken: document.holders.reduce((most, { lastToken }) => Math.max(most, lastToken), last),
  };
}

/** Nobody holds the lock or waits for it. Without reading the text. */
export function isFreeText(text: string): boolean {
  return text.endsWith(',[],[]]');
}

/** @throws LockStoreError for a note that this library has not written */
export function noteIn({ id, text, at }: NoteRow, key: string): StoredNote {
  const { until: _, ...note } = readStored(key, () => waiterIn(JSON.parse(text) as WaiterText));
  return { ...note, waitMs: Infinity, id, at };
}

function holderText(holder: Holder, session: string): HolderText {
  const { owner, claim, token, lastToken, nonce, isUnconfirmed } = holder;
  const leaseMs = typeof holder.until === 'object' ? holder.until.inMs : holder.leaseMs;
  const text = [
    owner,
    claimText(claim),
    token,
    lastToken,
    finite(leaseMs ?? Infinity),
    holder.session ?? session,
  ] as const;
  if (nonce === undefined) return text;
  return isUnconfirmed ? [...text, nonce, 1] : [...text, nonce];
}

/** @param firstToken what token 0 stands for */
function holderIn(text: HolderText, firstToken: number): Holder {
  const [owner, claim, token, last, leaseMs, session, nonce, isUnconfirmed] = text;
  checkTexts(owner, session);
  return {
    owner,
    claim: claimIn(claim),
    token: token === 0 ? firstToken : token,
    lastToken: token === 0 ? firstToken + last - 1 : last,
    until: Infinity,
    leaseMs: leaseMs ?? Infinity,
    session,
    ...(nonce !== undefined && { nonce }),
    ...(isUnconfirmed && { isUnconfirmed: true }),
  };
}

function waiterText(waiter: Omit<Waiter, 'until'>, session: string): WaiterText {
  const { owner, claim, leaseMs, tokens, minToken, ticket, nonce } = waiter;
  return [
    owner,
    claimText(claim),
    finite(leaseMs),
    tokens,
    minToken,
    ticket,
    nonce,
    waiter.session ?? session,
  ];
}

function waiterIn(text: WaiterText): Waiter & { readonly session: string } {
  const [owner, claim, leaseMs, tokens, minToken, ticket, nonce, session] = text;
  checkTexts(owner, session);
  return {
    owner,
    claim: claimIn(claim),
    leaseMs: leaseMs ?? Infinity,
    tokens,
    minToken,
    ticket,
    nonce,
    until: Infinity,
    session,
  };
}

/** @throws TypeError */
function checkTexts(...texts: readonly unknown[]): void {
  if (texts.some((text) => typeof text !== 'string')) throw new TypeError('an owner or a session is no text');
}
