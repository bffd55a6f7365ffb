import type { Chance } from '../common/clock.js';
import { ignoreFailure } from '../common/promises.js';
import { checkNameBytes } from '../connection/checks.js';
import type { NamePage, NameRequest } from '../document/timed-register.js';
import type { LockStoreContext } from '../port/lock-store.js';
import type {
  BackendListener,
  StoredDocument,
  Messages,
  Session,
  SessionBackend,
  SessionHolderEntry,
  SessionSwap,
  SessionTake,
  SessionWriteReply,
} from '../session/backend.js';
import { EtcdOutbox, type EtcdRequest } from './batch.js';
import { EtcdClient } from './client.js';
import type { Compare, EtcdGrpc, EtcdKeyValue, RequestOp, ResponseOp, TxnReply, TxnRequest } from './grpc.js';
import { EtcdPipe } from './pipe.js';
import { EtcdMailbox, type EtcdSession, EtcdSessions } from './sessions.js';
import type { EtcdTarget } from './store.js';

/** `swap` deletes up to this many notes one by one, and more than that as one key range. */
const MAX_DELETIONS = 64;
/**
 * `firstSession` reads this many presence keys, in order, to find the least session id. It reads more than one key because
 * somebody may have written a key by hand whose name is no session id.
 */
const MAX_PRESENCES = 100;
const SESSION_ID = /^[0-9a-f]+$/;

/**
 * The etcd side of `SessionBackend`: reads and writes documents, the notes that waiting clients leave beside them, and the
 * mailboxes of clients. Each write is one transaction. See docs/document-stores.md.
 */
export class EtcdBackend implements SessionBackend {
  readonly address: string;
  readonly commandTimeoutMs: number;
  private readonly keys: EtcdKeys;
  private readonly client: EtcdClient;
  private readonly pipe: EtcdPipe;
  private readonly outbox: EtcdOutbox;
  private readonly sessions: EtcdSessions;
  private readonly mailbox: EtcdMailbox;
  private listener: BackendListener | undefined;
  private notes = 0;

  constructor(target: EtcdTarget, options: BackendOptions) {
    const { root, commandTimeoutMs } = options;
    this.address = target.endpoints.join(',');
    this.commandTimeoutMs = commandTimeoutMs;
    const keys = (this.keys = new EtcdKeys(root));
    const client = (this.client = new EtcdClient(target, options));
    const context = { ...options, client, keys };
    this.mailbox = new EtcdMailbox({
      ...context,
      onMessage: (text, revision) => this.listener?.onMessage(text, revision),
      onGap: () => this.listener?.onGap(),
      onDeleted: () => this.sessions.check(),
    });
    this.sessions = new EtcdSessions({
      ...context,
      onOpen: (revision) => this.mailbox.startAfter(revision),
      onRepaired: () => this.listener?.onGap(),
      onEnd: (session) => this.listener?.onSessionEnd(session),
    });
    this.outbox = new EtcdOutbox(client, keys);
    this.pipe = new EtcdPipe({
      ...context,
      outbox: this.outbox,
      session: () => this.sessions.current,
      newestRevision: () => this.mailbox.readUpTo,
      onRestored: (revision) => this.mailbox.goBackTo(revision),
      onSessionGone: (session) => this.sessions.end(session),
    });
    client.onOpen = () => {
      this.mailbox.watch();
      this.pipe.schedule();
      ignoreFailure(this.sessions.open());
    };
    client.onRefused = () => this.pipe.refuseWaiting();
  }

  listen(listener: BackendListener): void {
    this.listener = listener;
    this.client.start();
  }

  session(name: string | undefined): Promise<Session> {
    return this.sessions.open(name);
  }

  take({ name, seen, text, notes, session }: SessionTake): Promise<SessionWriteReply> {
    checkName(name);
    const { keys } = this;
    const { leaseId: lease } = session as EtcdSession;
    const value = Buffer.from(notes.join('\n'));
    const id = `${lease.toString(16)}.${(this.notes++).toString(16).padStart(12, '0')}`;
    const left = { requestPut: { key: keys.note(name, id), value, lease } };
    const [document, beside] = rowReads(keys, name);
    const modRevision = (seen?.isFree && seen.version) || 0;
    const txn: TxnRequest = {
      compare: [{ key: keys.document(name), target: 'MOD', result: 'EQUAL', modRevision }],
      success: [put(keys.document(name), text), beside],
      failure: notes.length === 0 ? [document, beside] : [left, document, beside],
    };
    return this.pipe.run({
      key: name,
      session: session as EtcdSession,
      txn,
      bytes: bytesOf(name, [text, ...notes]),
      toReply: this.writeReply(name, text),
    });
  }

  swap(swap: SessionSwap): Promise<SessionWriteReply> {
    const { keys } = this;
    const { name, version, text, mayDelete, failOnUnreadNotes, notesRead, mergedNotes, messages } = swap;
    const document = keys.document(name);
    const notes = keys.notes(name);
    const ids = [...new Set(mergedNotes)];
    // A transaction has room for few single deletions. More notes are deleted as one key range, which would also delete notes
    // that this client has not read. So the write then compares that the range has no note newer than those read, and fails
    // otherwise.
    const areAll = failOnUnreadNotes || ids.length > MAX_DELETIONS;
    const compare: Compare[] = [{ key: document, target: 'MOD', result: 'EQUAL', modRevision: version }];
    if (areAll) compare.push({ ...notes, target: 'MOD', result: 'LESS', modRevision: notesRead + 1 });
    const noteKeys = areAll ? [notes].slice(0, ids.length) : ids.map((id) => ({ key: keys.note(name, id) }));
    const deletions = noteKeys.map(deleted);
    const write = mayDelete ? deleted({ key: document }) : put(document, text);
    const failure = rowReads(keys, name);
    const length = messages.clients.length > 0 ? messages.text(0, 0).length : 0;
    return this.pipe.run({
      key: name,
      session: swap.session as EtcdSession,
      txn: { compare, success: [write, ...deletions, failure[1]], failure },
      messages,
      bytes: bytesOf(name, [text]) + messages.clients.length * 3 * length,
      toReply: this.writeReply(name, mayDelete ? null : text),
    });
  }

  async read(name: string): Promise<StoredDocument> {
    checkName(name);
    const txn: TxnRequest = { success: rowReads(this.keys, name) };
    return this.pipe.run({
      key: name,
      txn,
      bytes: bytesOf(name),
      toReply: ({ responses }, revision) => rowIn(this.keys, name, { responses, revision }),
    });
  }

  async endedAmong(sessions: readonly string[]): Promise<readonly string[]> {
    const counts = await Promise.all(sessions.map((id) => this.countOf(id)));
    return sessions.filter((_, i) => counts[i] === 0);
  }

  async firstSession(): Promise<string | undefined> {
    const found = await this.find({ ...this.keys.sessions(), limit: MAX_PRESENCES, keysOnly: true });
    return found.map(({ key }) => this.keys.sessionId(key)).find((id) => SESSION_ID.test(id));
  }

  async remove({ name, version }: StoredDocument): Promise<void> {
    const key = this.keys.document(name);
    const compare: Compare[] = [
      { key, target: 'MOD', result: 'EQUAL', modRevision: version },
      { ...this.keys.notes(name), target: 'CREATE', result: 'EQUAL', createRevision: 0 },
    ];
    await this.client.call('Txn', { compare, success: [deleted({ key })] }, { key: name });
  }

  sendMessages(messages: Messages): void {
    this.outbox.tell(messages);
  }

  async publishHolderEntry({ clientId, text, session }: SessionHolderEntry): Promise<void> {
    const key = this.keys.holderEntry(clientId);
    const { leaseId: lease } = session as EtcdSession;
    await this.send(text === undefined ? deleted({ key }) : put(key, text, lease));
  }

  readHolderEntries(clientIds: readonly string[]): Promise<readonly (string | undefined)[]> {
    return Promise.all(
      clientIds.map(async (clientId) => {
        const [found] = await this.find({ key: this.keys.holderEntry(clientId) });
        return found?.value.toString();
      }),
    );
  }

  async list({ prefix, after, most: limit }: NameRequest): Promise<NamePage> {
    const { keys } = this;
    const behind = after === undefined ? undefined : keys.keyAt(after);
    const found = await this.find({ ...keys.documents(prefix, behind), limit, keysOnly: true });
    const last = found.length < limit ? undefined : found.at(-1);
    return { names: found.map(({ key }) => keys.nameOf(key)), after: last && keys.cursorOf(last.key) };
  }

  async close(keepSession: boolean): Promise<void> {
    this.pipe.close();
    this.outbox.close();
    this.mailbox.close();
    await this.sessions.close(keepSession);
    this.client.close();
  }

  /**
   * Turns etcd's reply to `take` or `swap` into a row. If etcd executed the write, the last response has the notes, and the
   * document is the text that was written. Otherwise the last two responses have the present document and notes.
   */
  private writeReply(name: string, text: string | null): EtcdRequest<SessionWriteReply>['toReply'] {
    return ({ succeeded, responses }, revision) => {
      if (!succeeded) return { isDone: false, row: rowIn(this.keys, name, { responses, revision }) };
      const row = rowIn(this.keys, name, { responses: [{}, ...responses.slice(-1)], revision });
      if (text === null) return { isDone: true, row };
      return { isDone: true, row: { ...row, text, version: revision, writtenAt: revision } };
    };
  }

  /** Counts the presence keys of a session: 1 while the session exists, 0 after its end. */
  private countOf(session: string): Promise<number | undefined> {
    const txn = { success: [{ requestRange: { key: this.keys.session(session), countOnly: true } }] };
    return this.pipe.run({
      key: undefined,
      txn,
      bytes: bytesOf(session),
      toReply: ({ responses }) => responses[0]?.responseRange?.count,
    });
  }

  /**
   * Sends one operation as a transaction of its own. If the etcd user lacks a right on these keys, etcd refuses only this
   * operation. In a batch it would refuse the requests of locks, too.
   */
  private send(operation: RequestOp): Promise<TxnReply> {
    return this.client.call('Txn', { success: [operation] }, { mayRepeat: true });
  }

  private async find(requestRange: RequestOp['requestRange']): Promise<readonly EtcdKeyValue[]> {
    const { responses } = await this.send({ requestRange });
    return responses[0]?.responseRange?.kvs ?? [];
  }
}

interface BackendOptions extends LockStoreContext {
  readonly chance: Chance;
  readonly clientId: string;
  readonly root: string;
  readonly commandTimeoutMs: number;
  readonly loadGrpc?: () => Promise<EtcdGrpc>;
}

function put(key: Buffer, text: string, lease?: number): RequestOp {
  return { requestPut: { key, value: Buffer.from(text), ...(lease !== undefined && { lease }) } };
}

function deleted(requestDeleteRange: NonNullable<RequestOp['requestDeleteRange']>): RequestOp {
  return { requestDeleteRange };
}

/** An upper estimate of the bytes of a request's transaction. Each of its operations repeats the name of the lock. */
function bytesOf(name: string, texts: readonly string[] = []): number {
  const ofNames = 8 * (Buffer.byteLength(name) + 60);
  return texts.reduce((bytes, text) => bytes + Buffer.byteLength(text) + 150, ofNames);
}

/** The longest name of a lock, in bytes. etcd keeps all keys in memory, and a request of a lock sends its name several times. */
export const MAX_NAME_BYTES = 4096;
const NUL = Buffer.of(0);
/** The end of a key range by prefix: `0xff` sorts behind each byte of an id or of a name in UTF-8. */
const LAST = Buffer.of(0xff);

/**
 * The keys of one root:
 *
 * - `l/<name>`: the document of a lock
 * - `q/<name>\0<id>`: the notes of one request, under the lease of its client
 * - `s/<session>`: the presence of a session, a key that exists as long as the session; its value is the epoch of the session
 * - `m/<client>`: the last messages to a client, under the lease of the client
 * - `i/<client>`: the holder entry of a client, by which people recognise it, under its lease
 */
export class EtcdKeys {
  constructor(private readonly root: string) {}

  document(name: string): Buffer {
    return Buffer.from(`${this.root}l/${name}`);
  }

  /**
   * The key range of all documents whose names begin with `prefix`. With `behind`, the range starts after that key, for the next
   * page.
   */
  documents(prefix: string, behind?: Buffer): KeyRange {
    const { key, rangeEnd } = this.below(`l/${prefix}`);
    const next = behind ? Buffer.concat([behind, NUL]) : key;
    return { key: next.compare(key) > 0 ? next : key, rangeEnd };
  }

  /**
   * The cursor that continues a listing after this key. It encodes the bytes of the name, because a key that somebody else wrote
   * may not be valid UTF-8.
   */
  cursorOf(key: Buffer): string {
    return key.toString('base64url', Buffer.byteLength(`${this.root}l/`));
  }

  keyAt(cursor: string): Buffer {
    return Buffer.concat([this.document(''), Buffer.from(cursor, 'base64url')]);
  }

  /** The name of the lock whose document has this key. */
  nameOf(key: Buffer): string {
    return key.toString('utf8', Buffer.byteLength(`${this.root}l/`));
  }

  note(name: string, id: string): Buffer {
    return Buffer.concat([this.notePrefix(name), Buffer.from(id)]);
  }

  notes(name: string): KeyRange {
    const key = this.notePrefix(name);
    return { key, rangeEnd: Buffer.concat([key, LAST]) };
  }

  noteId(name: string, key: Buffer): string {
    return key.toString('latin1', this.notePrefix(name).length);
  }

  sessions(): KeyRange {
    return this.below('s/');
  }

  sessionId(key: Buffer): string {
    return key.toString('utf8', Buffer.byteLength(`${this.root}s/`));
  }

  session(id: string): Buffer {
    return Buffer.from(`${this.root}s/${id}`);
  }

  mailbox(client: string): Buffer {
    return Buffer.from(`${this.root}m/${client}`);
  }

  holderEntry(client: string): Buffer {
    return Buffer.from(`${this.root}i/${client}`);
  }

  private below(prefix: string): KeyRange {
    const key = Buffer.from(this.root + prefix);
    return { key, rangeEnd: Buffer.concat([key, LAST]) };
  }

  /**
   * The key of a note up to its id: the name, then a NUL. A NUL inside the name is followed by the byte `0xff`, with which no id
   * begins, so the notes of lock `a` never lie in the key range of lock `a\0b`.
   */
  private notePrefix(name: string): Buffer {
    if (!name.includes('\0')) return Buffer.from(`${this.root}q/${name}\0`);
    const escaped = name.split('\0').flatMap((part, i) => {
      const bytes = Buffer.from(part);
      return i === 0 ? [bytes] : [NUL, LAST, bytes];
    });
    return Buffer.concat([Buffer.from(`${this.root}q/`), ...escaped, NUL]);
  }
}

/** All keys from `key` (included) up to `rangeEnd` (excluded). */
interface KeyRange {
  readonly key: Buffer;
  readonly rangeEnd: Buffer;
}

/**
 * @param name `keyPrefix` and the key
 * @throws LockKeyError for a name that is too long or is not valid UTF-8
 */
function checkName(name: string): void {
  checkNameBytes(name, MAX_NAME_BYTES, `etcdStore takes at most ${MAX_NAME_BYTES}`);
}

/** Returns the two operations that read the document of a lock and its notes. `rowIn` reads their responses. */
function rowReads(keys: EtcdKeys, name: string): readonly [RequestOp, RequestOp] {
  return [{ requestRange: { key: keys.document(name) } }, { requestRange: keys.notes(name) }];
}

/** @param responses the responses of a transaction whose last two operations were those of `rowReads` */
function rowIn(
  keys: EtcdKeys,
  name: string,
  { responses, revision }: { readonly responses: readonly ResponseOp[]; readonly revision: number },
): StoredDocument {
  const [document, notes] = responses.slice(-2).map(({ responseRange }) => responseRange?.kvs ?? []);
  const [found] = document as readonly EtcdKeyValue[];
  return {
    name,
    version: found?.modRevision,
    text: found?.value.toString() ?? null,
    writtenAt: found?.modRevision ?? 0,
    ...(found && { createdAt: found.createRevision }),
    revision,
    notes: [...(notes as readonly EtcdKeyValue[])].sort(inOrder).flatMap((note) => notesIn(keys, name, note)),
    notesRead: revision,
  };
}

/**
 * Splits the value of one note key into its notes. `take` writes all notes of its waiters into one key, so they have one id and
 * one revision.
 */
function notesIn(
  keys: EtcdKeys,
  name: string,
  { key, value, modRevision: at }: EtcdKeyValue,
): readonly StoredDocument['notes'][number][] {
  const id = keys.noteId(name, key);
  return value
    .toString()
    .split('\n')
    .map((text) => ({ id, text, at }));
}

/**
 * Sorts note keys in the order in which they were left. Keys that one transaction wrote have the same revision, so their ids
 * decide.
 */
function inOrder(a: EtcdKeyValue, b: EtcdKeyValue): number {
  return a.modRevision - b.modRevision || a.key.compare(b.key);
}
