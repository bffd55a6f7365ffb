import type { Holder, LockDocument, Note, StoredNote } from '../document/document.js';
import {
  checkFormat,
  type EntriesJson,
  parseEntries,
  parseStored,
  parseWaiter,
  serializeEntries,
  serializeWaiter,
} from '../document/json.js';
import type { StoredDocument } from './backend.js';

/** The first element of each stored document. This version of the library refuses documents of any other format. */
const FORMAT = 1;

type SessionDocumentJson = readonly [format: number, lastToken: number, ...EntriesJson];

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
  const waiter = serializeWaiter({ ...note, until: Infinity, session });
  return JSON.stringify(note.maxWaiting === undefined ? waiter : [...waiter, note.maxWaiting]);
}

/**
 * The JSON does not say which sessions have ended, so every `until` in the result is infinite. A first token that is written as 0
 * becomes the revision of the write, or `lastToken + 1` if that is larger.
 *
 * @param writtenAt the revision of the write
 * @throws LockStoreError for a document of another format
 */
export function parseSessionDocument(
  text: string,
  writtenAt: number,
  key: string,
): { readonly document: LockDocument; readonly lastToken: number } {
  return parseStored(key, () => {
    const [format, last, ...stored] = JSON.parse(text) as SessionDocumentJson;
    checkFormat(format, FORMAT, key);
    const entries = parseEntries(stored, () => Math.max(writtenAt, last + 1));
    const holders = entries.holders.map((holder) => {
      const leaseMs = typeof holder.until === 'object' ? holder.until.inMs : Infinity;
      return checked(Object.assign(holder, { until: Infinity, leaseMs }));
    });
    const lastToken = holders.reduce((most, holder) => Math.max(most, holder.lastToken), last);
    return { document: { holders, queue: entries.queue.map(checked) }, lastToken };
  });
}

/** Whether nobody holds the lock or waits for it. Recognizes that without parsing the text. */
export function isFreeJson(text: string): boolean {
  return text.endsWith(',[],[]]');
}

/** @throws LockStoreError for a note that this library has not written */
export function parseSessionNote({ id, text, at }: StoredDocument['notes'][number], key: string): StoredNote {
  return parseStored(key, () => {
    const json = JSON.parse(text) as EntriesJson[1][number];
    const { until: _, ...note } = checked(parseWaiter(json));
    const [maxWaiting] = json.slice(9);
    return { ...note, waitMs: Infinity, ...(typeof maxWaiting === 'number' && { maxWaiting }), id, at };
  });
}

/** The length of the lease, which the JSON contains in place of its end. */
function leaseOf({ until, leaseMs = Infinity }: Holder): Holder['until'] {
  return typeof until === 'object' ? until : { inMs: leaseMs };
}

/** @throws TypeError for an entry that another program has written */
function checked<Entry extends { readonly owner: string; readonly session?: string }>(entry: Entry): Entry {
  if (typeof entry.owner === 'string' && typeof entry.session === 'string') return entry;
  throw new TypeError('an owner or a session is no text');
}

/** The first element of each message. A client ignores a message with any other format, and its waiters recheck. */
const MESSAGE_FORMAT = 1;

/**
 * @param stored the document after a write; a `version` or `writtenAt` of 0 stands for the `order` of the message. Without it, the
 * message only says that the document has changed, and each receiver reads the document
 */
export function serializeMessage(name: string, stored?: Omit<StoredDocument, 'name' | 'revision'>): string {
  if (!stored) return JSON.stringify([MESSAGE_FORMAT, name]);
  const { version, writtenAt, notesRead, text, notes, nextTicket } = stored;
  return JSON.stringify([MESSAGE_FORMAT, name, { version, writtenAt, notesRead, text, notes, nextTicket }]);
}

/** @returns the document in the message, or only its name; `undefined` for a message in another format */
export function parseMessage(message: string, order: number): StoredDocument | string | undefined {
  let content: unknown;
  try {
    content = JSON.parse(message);
  } catch {
    return undefined;
  }
  if (!Array.isArray(content)) return undefined;
  const [format, name, stored] = content as readonly unknown[];
  if (format !== MESSAGE_FORMAT || typeof name !== 'string') return undefined;
  if (!stored) return name;
  const { version, writtenAt, notesRead, text, notes, nextTicket } = stored as StoredDocument;
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
