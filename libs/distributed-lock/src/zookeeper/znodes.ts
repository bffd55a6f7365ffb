import { checkNameBytes } from '../connection/checks.js';
import { storeError } from '../connection/connection-errors.js';
import type { NamePage, NameRequest } from '../document/timed-register.js';
import type { LockStoreError } from '../port/lock.errors.js';
import type { StoredDocument } from '../session/backend.js';
import { type Acl, type Children, type Node, Request } from './client/protocol.js';
import type { ZookeeperSession } from './client/session.js';

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

  /**
   * @param name `keyPrefix` and the key
   * @throws LockKeyError for a name that is too long or cannot be encoded
   */
  static check(name: string): void {
    checkNameBytes(name, MAX_BYTES, `at most ${MAX_BYTES} make the name of a znode`);
  }

  /** Encodes any string as the name of a znode. Different strings get different names. */
  static encode(text: string): string {
    return text.replace(ENCODED, (character) =>
      Buffer.from(character).reduce((all, byte) => `${all}%${byte.toString(16).padStart(2, '0')}`, ''),
    );
  }

  /** Decodes the name of a znode; `undefined` for a name that `encode` cannot have made. */
  static decode(znode: string): string | undefined {
    try {
      return decodeURIComponent(znode);
    } catch {
      return undefined;
    }
  }

  /** Decodes the name of a note's znode; `undefined` for any other znode. */
  static decodeNote(znode: string): { readonly text: string; readonly number: number } | undefined {
    const [, encoded, digits] = NOTE.exec(znode) ?? [];
    const text = encoded === undefined ? undefined : LockPaths.decode(encoded);
    return text === undefined ? undefined : { text, number: Number(digits) };
  }

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
    return `${this.documents}/${LockPaths.encode(name)}`;
  }

  /** The parent znode of the notes of a lock. */
  queueOf(name: string): string {
    return `${this.base}/q/${LockPaths.encode(name)}`;
  }

  /** The path of a new note, to which the server appends its number. */
  noteOf(name: string, text: string): string {
    return `${this.queueOf(name)}/${LockPaths.encode(text)}!`;
  }

  /** The parent of all presences. A presence is an ephemeral znode that exists as long as a client's session. */
  get presences(): string {
    return `${this.base}/s`;
  }

  presenceOf(session: string): string {
    return `${this.presences}/${LockPaths.encode(session)}`;
  }

  mailboxOf(client: string): string {
    return `${this.base}/m/${LockPaths.encode(client)}`;
  }

  holderEntryOf(client: string): string {
    return `${this.base}/i/${LockPaths.encode(client)}`;
  }
}

/**
 * The version of a row whose znode was just created. ZooKeeper counts versions from 0, and a row counts from 1, because 0 means
 * "none" in `notesRead` and in messages.
 */
export const FIRST_VERSION = 1;
/** `rowOf` makes two reads. It repeats both if another client may have written in between, up to this many times in all. */
const MAX_READINGS = 10;
/**
 * `list` refuses more locks than this. ZooKeeper sends all names in one reply, and a larger reply would delay all others on the
 * connection and might exceed the size of a message.
 */
const MAX_NAMES = 200_000;
/**
 * A presence is named after its session. A name that does not match was created by hand, so no client stands behind it that could
 * be chosen to sweep free documents.
 */
const SESSION_ID = /^[0-9a-f]{16}$/;

/** Reads the znodes of this store. */
export class Znodes {
  readonly session: ZookeeperSession;
  readonly paths: LockPaths;
  /** The access rights of new znodes. */
  readonly acl: Acl;
  private syncing: Promise<unknown> | undefined;

  constructor({ session, paths, acl }: Pick<Znodes, 'session' | 'paths' | 'acl'>) {
    this.session = session;
    this.paths = paths;
    this.acl = acl;
  }

  /** Reads the newest document: the server first catches up with the leader. */
  async read(name: string): Promise<StoredDocument> {
    const [, row] = await Promise.all([this.catchUp(), this.rowOf(name)]);
    return row;
  }

  /** Reads a document and its notes from the server that this session is connected to. That server may lag behind the leader. */
  async rowOf(name: string): Promise<StoredDocument> {
    const { session, paths } = this;
    let before: Node | undefined;
    for (let readings = 1; ; readings++) {
      const [children, node] = await Promise.all([
        session.readIfExists(Request.getChildren(paths.queueOf(name))),
        session.readIfExists(Request.getData(paths.documentOf(name))),
      ]);
      // The notes were read first, the document second. If the document was written after the last change of the notes, that write
      // may have merged the very notes that were just read, so they would count twice. Read both again.
      const mayBeTorn =
        node && children && children.names.length > 0 && node.stat.mzxid > children.stat.pzxid;
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

  async notesOf(name: string): Promise<Notes> {
    const { session, paths } = this;
    const children = await session.readIfExists(Request.getChildren(paths.queueOf(name)));
    return notesIn(children, session.lastZxid);
  }

  async endedAmong(sessions: readonly string[]): Promise<readonly string[]> {
    const presences = await this.readAll(sessions, (id) => Request.exists(this.paths.presenceOf(id)));
    return sessions.filter((_, i) => !presences[i]);
  }

  async firstSession(): Promise<string | undefined> {
    const { content: presences } = await this.session.send(Request.getChildren(this.paths.presences));
    return presences.names.filter((id) => SESSION_ID.test(id)).sort()[0];
  }

  async readHolderEntries(clientIds: readonly string[]): Promise<readonly (string | undefined)[]> {
    const nodes = await this.readAll(clientIds, (id) => Request.getData(this.paths.holderEntryOf(id)));
    return nodes.map((node) => node?.data);
  }

  /** @throws LockStoreError if there are more than `MAX_NAMES` documents */
  async list({ prefix, after, most }: NameRequest): Promise<NamePage> {
    const { session, paths } = this;
    const [stat] = await this.readAll([paths.documents], (path) => Request.exists(path));
    const count = stat?.childCount ?? 0;
    if (count > MAX_NAMES) throw tooManyNamesError(count, paths);
    const children = count > 0 ? await session.readIfExists(Request.getChildren(paths.documents)) : undefined;
    const isNext = (name: string): boolean =>
      name.startsWith(prefix) && (after === undefined || name > after);
    const rest = (children?.names ?? []).flatMap(nameIn).filter(isNext).sort();
    const names = rest.slice(0, most);
    return { names, after: names.length < rest.length ? names.at(-1) : undefined };
  }

  /** Sends one read for each item, behind a `sync`. `undefined` in the result: that znode does not exist. */
  private async readAll<Item, Content>(
    items: readonly Item[],
    requestFor: (item: Item) => Request<Content>,
  ): Promise<readonly (Content | undefined)[]> {
    const synced = this.catchUp();
    const reads = items.map((item) => this.session.readIfExists(requestFor(item)));
    const [, ...contents] = await Promise.all([synced, ...reads]);
    return contents;
  }

  /** Sends a `sync`, so that the server catches up with the leader. All reads of one turn of the event loop share one. */
  private catchUp(): Promise<unknown> {
    if (!this.syncing) {
      this.syncing = this.session.send(Request.sync(this.paths.base));
      process.nextTick(() => (this.syncing = undefined));
    }
    return this.syncing;
  }
}

type Notes = Pick<StoredDocument, 'notes' | 'notesRead' | 'nextTicket'>;

function notesIn(children: Children | undefined, revision: number): Notes {
  if (!children) return { notes: [], notesRead: 0, nextTicket: revision + 1 };
  const { names, stat } = children;
  // ZooKeeper numbers the children of a parent from 0. If the parent is deleted and created again, it starts at 0 again. Add the
  // zxid of the parent's creation, so that the numbers of notes keep growing.
  const numberOf = (creations: number): number => stat.czxid + 1 + creations;
  const notes: StoredDocument['notes'][number][] = [];
  for (const id of names) {
    const note = LockPaths.decodeNote(id);
    if (note) notes.push({ id, text: note.text, at: numberOf(note.number) });
  }
  notes.sort((a, b) => a.at - b.at);
  return { notes, notesRead: stat.version + FIRST_VERSION, nextTicket: numberOf(stat.creations) };
}

function tooManyNamesError(count: number, paths: LockPaths): LockStoreError {
  const detail = `${paths.documents} has ${count} znodes, and its one reply with all their names would hold up the locks from ${MAX_NAMES} on. Those of free locks are deleted after ten minutes. Ask for one key by locks.inspect(key), or each process for locks.held()`;
  return storeError('ZooKeeper', { reason: 'refused', detail });
}

/**
 * Decodes the name of a document's znode. Returns nothing for a znode that somebody created by hand with a name that `encode`
 * never makes.
 */
function nameIn(encoded: string): readonly string[] {
  const name = LockPaths.decode(encoded);
  return name !== undefined && LockPaths.encode(name) === encoded ? [name] : [];
}
