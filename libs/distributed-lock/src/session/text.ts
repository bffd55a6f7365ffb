import type { Holder, LockDocument, Note, StoredNote } from '../document/document.js';
import {
  checkFormat,
  entriesIn,
  entriesText,
  type HolderText,
  readStored,
  takenBy,
  waiterIn,
  waiterText,
  type WaiterText,
} from '../document/text.js';
import type { AcquireRequest } from '../port/lock-store.js';
import type { DocumentRow, NoteRow } from './backend.js';

/** The first element of each stored document: the version of the format. A release of this library refuses documents with any other. */
const FORMAT = 1;

type DocumentText = readonly [format: number, lastToken: number, holders: HolderText[], queue: WaiterText[]];

/** The content of a document's text. Each `until` is infinite, because the text does not say which sessions have ended. */
interface TextContent {
  readonly document: LockDocument;
  readonly lastToken: number;
}

/** @param session the session of the client that writes. Entries that have no session yet get this one */
export function documentTextUnder(
  { holders, queue }: LockDocument,
  lastToken: number,
  session: string,
): string {
  const entries = entriesText({
    holders: holders.map((holder) => ({
      ...holder,
      until: leaseOf(holder),
      session: holder.session ?? session,
    })),
    queue: queue.map((waiter) => ({ ...waiter, until: Infinity, session: waiter.session ?? session })),
  });
  return JSON.stringify([FORMAT, lastToken, ...entries]);
}

/**
 * The text of the document after the first grant of a free lock. Its first token is written as 0: readers put the revision of the
 * write there, or `lastToken + 1` if that is larger.
 */
export function takenTextUnder(request: AcquireRequest, lastToken: number, session: string): string {
  return documentTextUnder(takenBy(request), lastToken, session);
}

export function noteTextUnder(note: Note, session: string): string {
  return JSON.stringify(waiterText({ ...note, until: Infinity, session }));
}

/**
 * @param writtenAt the revision of the write
 * @throws LockStoreError for a document of another format
 */
export function contentOf(text: string, writtenAt: number, key: string): TextContent {
  return readStored(key, () => contentIn(text, writtenAt, key));
}

/** Whether nobody holds the lock or waits for it. Recognizes that without parsing the text. */
export function isFreeText(text: string): boolean {
  return text.endsWith(',[],[]]');
}

/** @throws LockStoreError for a note that this library has not written */
export function noteIn({ id, text, at }: NoteRow, key: string): StoredNote {
  const { until: _, ...note } = readStored(key, () => checked(waiterIn(JSON.parse(text) as WaiterText)));
  return { ...note, waitMs: Infinity, id, at };
}

function contentIn(text: string, writtenAt: number, key: string): TextContent {
  const [format, last, holders, queue] = JSON.parse(text) as DocumentText;
  checkFormat(format, FORMAT, key);
  const entries = entriesIn(holders, queue, () => Math.max(writtenAt, last + 1));
  const document = {
    holders: entries.holders.map((holder) => {
      const leaseMs = typeof holder.until === 'object' ? holder.until.inMs : Infinity;
      return checked(Object.assign(holder, { until: Infinity, leaseMs }));
    }),
    queue: entries.queue.map(checked),
  };
  return {
    document,
    lastToken: document.holders.reduce((most, { lastToken }) => Math.max(most, lastToken), last),
  };
}

/**
 * The length of the lease, which the text contains in place of its end: on etcd and ZooKeeper the owner's client or the end of its
 * session ends the lease.
 */
function leaseOf({ until, leaseMs = Infinity }: Holder): Holder['until'] {
  return typeof until === 'object' ? until : { inMs: leaseMs };
}

/** @throws TypeError for an entry that another program has written */
function checked<Entry extends { readonly owner: string; readonly session?: string }>(entry: Entry): Entry {
  if (typeof entry.owner === 'string' && typeof entry.session === 'string') return entry;
  throw new TypeError('an owner or a session is no text');
}

/**
 * The first element of each message: the version of its format. A client ignores a message with any other, and its waiters find
 * their grants by rechecks.
 */
const MESSAGE_FORMAT = 1;

/** The text of a message with a document as it is after a write. 0 as `version` or as `writtenAt` means: the `order` of the message. */
export function messageText(row: Omit<DocumentRow, 'revision'>): string {
  const { name, version, writtenAt, notesRead, text, notes, nextTicket } = row;
  return JSON.stringify([MESSAGE_FORMAT, name, { version, writtenAt, notesRead, text, notes, nextTicket }]);
}

/**
 * The text of a message that only says that the document has changed, so that each receiver reads it. For writes that notify too
 * many clients to send each a copy.
 */
export function shortMessageText(name: string): string {
  return JSON.stringify([MESSAGE_FORMAT, name]);
}

/**
 * @returns the document in the message; only its name for a short message; `undefined` for a text in a format that this release
 * cannot read
 */
export function messageIn(message: string, order: number): DocumentRow | string | undefined {
  let content: unknown;
  try {
    content = JSON.parse(message);
  } catch {
    return undefined;
  }
  if (!Array.isArray(content)) return undefined;
  const [format, name, said] = content as readonly unknown[];
  if (format !== MESSAGE_FORMAT || typeof name !== 'string') return undefined;
  if (!said) return name;
  const { version, writtenAt, notesRead, text, notes, nextTicket } = said as DocumentRow;
  return {
    name,
    version: version || order,
    writtenAt: writtenAt || order,
    revision: order,
    notesRead,
    text,
    notes,
    ...(nextTicket !== undefined && { nextTicket }),
  };
}
