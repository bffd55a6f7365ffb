import { checkNameBytes } from '../connection/checks.js';
import { storeError } from '../connection/connection-errors.js';
import type { NamePage, NameRequest } from '../document/timed-register.js';
import type { LockStoreError } from '../port/lock.errors.js';
import type { StoredDocument } from '../session/backend.js';
import {
  type Acl,
  type Children,
  CODE,
  exists,
  getChildren,
  getData,
  type Node,
  type Request,
} from './client/requests.js';
import type { ZookeeperSession } from './client/session.js';
import { FIRST_VERSION, isCode } from './failures.js';

/** The longest name of a lock, in bytes, before it is encoded. */
export const MAX_BYTES = 2000;
/**
 * Characters to encode as `%…` in the name of a znode: those that ZooKeeper forbids, the dot and the slash of paths, and `%`
 * itself.
 */
const ENCODED = /[%/.\p{Cc}\p{Co}\u{fff0}-\u{10ffff}]/gu;
/** The name of a note's znode: the note as text, `!`, and the digits that the server appends, ten at least. */
const NOTE = /^(.*)!(-?\d{10,})$/s;

/** The paths of all znodes of this store. */
export class LockPaths {
  /** @param base the absolute path of the root, chroot included, without a slash at its end */
  constructor(readonly base: string) {}

  /** The znodes that must exist before anything can be written, each behind its parent. */
  get parents(): readonly string[] {
    const parts = this.base.split('/').slice(1);
    const above = parts.map((_, i) => `/${parts.slice(0, i + 1).join('/')}`);
    return [...above, this.documents, `${this.base}/q`, this.presences, `${this.base}/m`, `${this.base}/i`];
  }

  get documents(): string {
    return `${this.base}/l`;
  }

  documentOf(name: string): string {
    return `${this.documents}/${encodeName(name)}`;
  }

  /** The parent znode of the notes of a lock. */
  queueOf(name: string): string {
    return `${this.base}/q/${encodeName(name)}`;
  }

  /** The parent of all presences. A presence is an ephemeral znode that exists as long as a client's session. */
  get presences(): string {
    return `${this.base}/s`;
  }

  presenceOf(session: string): string {
    return `${this.presences}/${encodeName(session)}`;
  }

  mailboxOf(client: string): string {
    return `${this.base}/m/${encodeName(client)}`;
  }

  holderEntryOf(client: string): string {
    return `${this.base}/i/${encodeName(client)}`;
  }
}

/**
 * @param name `keyPrefix` and the key
 * @throws LockKeyError for a name that is too long or cannot be encoded
 */
export function checkZnodeName(name: string): void {
  checkNameBytes(name, MAX_BYTES, `at most ${MAX_BYTES} make the name of a znode`);
}

/** Encodes any string as the name of a znode. Different strings get different names. */
export function encodeName(text: string): string {
  return text.replace(ENCODED, (character) =>
    Buffer.from(character).reduce((all, byte) => `${all}%${byte.toString(16).padStart(2, '0')}`, ''),
  );
}

/** Decodes the name of a znode; `undefined` for a name that `encodeName` cannot have made. */
export function decodeName(name: string): string | undefined {
  try {
    return decodeURIComponent(name);
  } catch {
    return undefined;
  }
}

/** The name of a note's znode, to which the server appends its number. */
export function noteName(text: string): string {
  return `${encodeName(text)}!`;
}

/** Parses the name of a note's znode; `undefined` for any other znode. */
export function noteNamed(name: string): { readonly text: string; readonly number: number } | undefined {
  const [, encoded, digits] = NOTE.exec(name) ?? [];
  const text = encoded === undefined ? undefined : decodeName(encoded);
  return text === undefined ? undefined : { text, number: Number(digits) };
}

/** What is needed to read and write znodes: the session, the paths, and the access rights for new znodes. */
export interface Znodes {
  readonly session: ZookeeperSession;
  readonly paths: LockPaths;
  readonly acl: Acl;
}

export type Notes = Pick<StoredDocument, 'notes' | 'notesRead' | 'nextTicket'>;

/** If another client may have written between the two reads of `readRow`, it reads again, at most this many times in all. */
const MAX_READINGS = 10;

/** Reads a document and its notes from the server that this session is connected to. That server may lag behind the leader. */
export async function readRow({ session, paths }: Znodes, name: string): Promise<StoredDocument> {
  let before: Node | undefined;
  for (let readings = 1; ; readings++) {
    const [children, node] = await Promise.all([
      readIfExists(session, getChildren(paths.queueOf(name))),
      readIfExists(session, getData(paths.documentOf(name))),
    ]);
    // The notes were read first, the document second. If the document was written after the last change of the notes, that write
    // may have merged the very notes that were just read, so they would count twice. Read both again.
    const mayBeTorn = node && children && children.names.length > 0 && node.stat.mzxid > children.stat.pzxid;
    const isSame = before !== undefined && before.stat.mzxid === node?.stat.mzxid;
    if (!mayBeTorn || isSame || readings === MAX_READINGS) {
      const revision = session.lastZxid;
      return {
        name,
        version: node && node.stat.version + FIRST_VERSION,
        text: node?.data ?? null,
        writtenAt: node?.stat.mzxid ?? 0,
        ...(node && { createdAt: node.stat.czxid }),
        revision,
        ...notesIn(children, revision),
      };
    }
    before = node;
  }
}

export async function readNotes({ session, paths }: Znodes, name: string): Promise<Notes> {
  const children = await readIfExists(session, getChildren(paths.queueOf(name)));
  return notesIn(children, session.lastZxid);
}

function notesIn(children: Children | undefined, revision: number): Notes {
  if (!children) return { notes: [], notesRead: 0, nextTicket: revision + 1 };
  const { names, stat } = children;
  // ZooKeeper numbers the children of a parent from 0. If the parent is deleted and created again, it starts at 0 again. Add the
  // zxid of the parent's creation, so that the numbers of notes keep growing.
  const numberOf = (creations: number): number => stat.czxid + 1 + creations;
  const notes: StoredDocument['notes'][number][] = [];
  for (const id of names) {
    const note = noteNamed(id);
    if (note) notes.push({ id, text: note.text, at: numberOf(note.number) });
  }
  notes.sort((a, b) => a.at - b.at);
  return { notes, notesRead: stat.version + FIRST_VERSION, nextTicket: numberOf(stat.creations) };
}

/** Sends a read; `undefined` if the znode does not exist. */
export async function readIfExists<Content>(
  session: ZookeeperSession,
  request: Request<Content>,
): Promise<Content | undefined> {
  try {
    return (await session.send(request)).content;
  } catch (error) {
    if (isCode(error, CODE.noNode)) return undefined;
    throw error;
  }
}

/**
 * Above this number of locks, listing them is refused. ZooKeeper sends all names in one reply. A larger one would delay all other
 * replies of the connection, and might exceed the size of a message.
 */
const MAX_NAMES = 200_000;

/**
 * The names of all znodes that are documents, still encoded.
 *
 * @throws LockStoreError if there are more than `MAX_NAMES`
 */
export async function documentNames({ session, paths }: Znodes): Promise<readonly string[]> {
  const stat = await readIfExists(session, exists(paths.documents));
  const count = stat?.childCount ?? 0;
  if (count > MAX_NAMES) throw tooManyNamesError(count, paths);
  const children = count > 0 ? await readIfExists(session, getChildren(paths.documents)) : undefined;
  return children?.names ?? [];
}

/** Returns the names of locks on the next page, in order. */
export function pageOf(encoded: readonly string[], { prefix, after, most }: NameRequest): NamePage {
  const isNext = (name: string): boolean => name.startsWith(prefix) && (after === undefined || name > after);
  const rest = encoded.flatMap(nameIn).filter(isNext).sort();
  const names = rest.slice(0, most);
  return { names, after: names.length < rest.length ? names.at(-1) : undefined };
}

function tooManyNamesError(count: number, paths: LockPaths): LockStoreError {
  const detail = `${paths.documents} has ${count} znodes, and its one reply with all their names would hold up the locks from ${MAX_NAMES} on. Those of free locks are deleted after ten minutes. Ask for one key by locks.inspect(key), or each process for locks.held()`;
  return storeError('ZooKeeper', { reason: 'refused', detail });
}

/**
 * Decodes the name of a document's znode. Returns nothing for a znode that somebody created by hand with a name that `encodeName`
 * never makes.
 */
function nameIn(encoded: string): readonly string[] {
  const name = decodeName(encoded);
  return name !== undefined && encodeName(name) === encoded ? [name] : [];
}
