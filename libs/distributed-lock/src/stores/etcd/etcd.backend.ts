import { inBackground } from '../../async-context/in-background.js';
import type { LockStoreContext } from '../../port/lock-store.js';
import type { Chance } from '../../time/chance.js';
import type { NamePage, NameRequest } from '../core/register.js';
import type {
  BackendListener,
  Messages,
  DocumentRow,
  Session,
  SessionBackend,
  SessionIntroduction,
  SessionWriteReply,
  SessionSwap,
  SessionTake,
} from '../session/session-backend.js';
import type { EtcdRequest } from './etcd.batch.js';
import { EtcdClient } from './etcd.client.js';
import type { EtcdGrpc } from './etcd.grpc.js';
import { checkName, EtcdKeys } from './etcd.keys.js';
import { EtcdMailbox } from './etcd.mailbox.js';
import type {
  Compare,
  EtcdKeyValue,
  RangeRequest,
  RequestOp,
  TxnReply,
  TxnRequest,
} from './etcd.messages.js';
import { EtcdOutbox } from './etcd.outbox.js';
import { EtcdPipe } from './etcd.pipe.js';
import { rowIn, rowOps } from './etcd.rows.js';
import type { EtcdSession } from './etcd.session.js';
import { EtcdSessions } from './etcd.sessions.js';
import type { EtcdTarget } from './etcd.target.js';

/** Up to this number, a transaction deletes notes one by one. */
const MAX_DELETIONS = 64;
/** How many presences are read to find the least session id. One that was made by hand may have another name. */
const MAX_PRESENCES = 100;
const SESSION_ID = /^[0-9a-f]+$/;

/** Documents, notes and mailboxes in etcd. Each write is one transaction. */
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
      inBackground(this.sessions.open(), () => undefined);
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
    const [document, beside] = rowOps(keys, name);
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
    const { name, version, text, mayDelete, isExact, notesRead, mergedNotes, messages } = swap;
    const document = keys.document(name);
    const notes = keys.notes(name);
    const ids = [...new Set(mergedNotes)];
    // More notes than a transaction can delete one by one are deleted together, so there must be no others.
    const areAll = isExact || ids.length > MAX_DELETIONS;
    const compare: Compare[] = [{ key: document, target: 'MOD', result: 'EQUAL', modRevision: version }];
    if (areAll) compare.push({ ...notes, target: 'MOD', result: 'LESS', modRevision: notesRead + 1 });
    const noteKeys = areAll ? [notes].slice(0, ids.length) : ids.map((id) => ({ key: keys.note(name, id) }));
    const deletions = noteKeys.map(deleted);
    const write = mayDelete ? deleted({ key: document }) : put(document, text);
    const failure = rowOps(keys, name);
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

  async read(name: string): Promise<DocumentRow> {
    checkName(name);
    const txn: TxnRequest = { success: rowOps(this.keys, name) };
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

  async remove({ name, version }: DocumentRow): Promise<void> {
    const key = this.keys.document(name);
    const compare: Compare[] = [
      { key, target: 'MOD', result: 'EQUAL', modRevision: version },
      { ...this.keys.notes(name), target: 'CREATE', result: 'EQUAL', createRevision: 0 },
    ];
    await this.client.call('Txn', { compare, success: [deleted({ key })] }, { key: name });
  }

  tell(messages: Messages): void {
    this.outbox.tell(messages);
  }

  async introduce({ clientId, text, session }: SessionIntroduction): Promise<void> {
    const key = this.keys.introduction(clientId);
    const { leaseId: lease } = session as EtcdSession;
    await this.send(text === undefined ? deleted({ key }) : put(key, text, lease));
  }

  readIntroductions(clientIds: readonly string[]): Promise<readonly (string | undefined)[]> {
    return Promise.all(
      clientIds.map(async (clientId) => {
        const [found] = await this.find({ key: this.keys.introduction(clientId) });
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

  /** The last operations read the row: after a write that was executed the notes, otherwise the document, too. */
  private writeReply(name: string, text: string | null): EtcdRequest<SessionWriteReply>['toReply'] {
    return ({ succeeded, responses }, revision) => {
      if (!succeeded) return { isDone: false, row: rowIn(this.keys, name, { responses, revision }) };
      const row = rowIn(this.keys, name, { responses: [{}, ...responses.slice(-1)], revision });
      if (text === null) return { isDone: true, row };
      return { isDone: true, row: { ...row, text, version: revision, writtenAt: revision } };
    };
  }

  /** @returns 1 while the session exists */
  private countOf(session: string): Promise<number | undefined> {
    const txn = { success: [{ requestRange: { key: this.keys.session(session), countOnly: true } }] };
    return this.pipe.run({
      key: undefined,
      txn,
      bytes: bytesOf(session),
      toReply: ({ responses }) => responses[0]?.responseRange?.count,
    });
  }

  /** Sends one operation outside of the batches, so that no lock is refused when the user of etcd lacks the right for it. */
  private send(operation: RequestOp): Promise<TxnReply> {
    return this.client.call('Txn', { success: [operation] }, { mayRepeat: true });
  }

  private async find(requestRange: RangeRequest): Promise<readonly EtcdKeyValue[]> {
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

/** About how many bytes a transaction has, at most. Each of its operations names the document. */
function bytesOf(name: string, texts: readonly string[] = []): number {
  const ofNames = 8 * (Buffer.byteLength(name) + 60);
  return texts.reduce((bytes, text) => bytes + Buffer.byteLength(text) + 150, ofNames);
}
