import type { Holder, LockDocument, Note, StoredNote } from '../document/document.js';
import {
  checkFormat,
  parseEntries,
  serializeEntries,
  type HolderJson,
  parseStored,
  parseWaiter,
  serializeWaiter,
  type WaiterJson,
} from '../document/json.js';
import type { StoredDocument, SerializedNote } from './backend.js';

/** The first element of each stored document: the version of the format. A release of this library refuses documents with any other. */
const FORMAT = 1;

type SessionDocumentJson = readonly [
  format: number,
  lastToken: number,
  holders: HolderJson[],
  queue: WaiterJson[],
];

/** The content of a document's text. Each `until` is infinite, because the text does not say which sessions have ended. */
interface TextContent {
  readonly document: LockDocument;
  readonly lastToken: number;
}

/** @param session the session of the client that writes. Entries that have no session yet get this one */
export function serializeSessionDocument(
  { holders, queue }: LockDocument,
  lastToken: number,
  session: string,
): string {
  const entries = serializeEntries({
    holders: holders.map((holder) => ({
      ...holder,
      until: leaseOf(holder),
      session: holder.session ?? session,
    })),
    queue: queue.map((waiter) => ({ ...waiter, until: Infinity, session: waiter.session ?? session })),
  });
  return JSON.stringify([FORMAT, lastToken, ...entries]);
}

export function serializeSessionNote(note: Note, session: string): string {
  return JSON.stringify(serializeWaiter({ ...note, until: Infinity, session }));
}

/**
 * @param writtenAt the revision of the write
 * @throws LockStoreError for a document of another format
 */
export function parseSessionDocument(text: string, writtenAt: number, key: string): TextContent {
  return parseStored(key, () => contentIn(text, writtenAt, key));
}

/** Whether nobody holds the lock or waits for it. Recognizes that without parsing the text. */
export function isFreeJson(text: string): boolean {
  return text.endsWith(',[],[]]');
}

/** @throws LockStoreError for a note that this library has not written */
export function parseSessionNote({ id, text, at }: SerializedNote, key: string): StoredNote {
  const { until: _, ...note } = parseStored(key, () => checked(parseWaiter(JSON.parse(text) as WaiterJson)));
  return { ...note, waitMs: Infinity, id, at };
}

function contentIn(text: string, writtenAt: number, key: string): TextContent {
  const [format, last, holders, queue] = JSON.parse(text) as SessionDocumentJson;
  checkFormat(format, FORMAT, key);
  const entries = parseEntries(holders, queue, () => Math.max(writtenAt, last + 1));
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
export function serializeMessage(row: Omit<StoredDocument, 'revision'>): string {
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
export function parseMessage(message: string, order: number): StoredDocument | string | undefined {
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
  const { version, writtenAt, notesRead, text, notes, nextTicket } = said as StoredDocument;
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
