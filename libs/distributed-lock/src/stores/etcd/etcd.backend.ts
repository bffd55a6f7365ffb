import { inBackground } from '../../async-context/in-background.js';
import type { LockStoreContext } from '../../port/lock-store.js';
import { randomMs, type Chance } from '../../time/chance.js';
import type { Clock } from '../../time/clock.js';
import type {
  BackendListener,
  Messages,
  Row,
  Session,
  SessionBackend,
  SessionWriteReply,
  SessionSwap,
  SessionTake,
} from '../session/session-backend.js';
import { SWEEP_MS } from '../session/sweep-times.js';
import { EtcdClient } from './etcd.client.js';
import type { EtcdGrpc } from './etcd.grpc.js';
import { checkName, EtcdKeys, MAILBOX_SLOTS } from './etcd.keys.js';
import { EtcdMailbox } from './etcd.mailbox.js';
import type { Compare, RequestOp, TxnReply, TxnRequest } from './etcd.messages.js';
import { bytesOf, depthOf, flatOf, inParts } from './etcd.parts.js';
import { EtcdPipe } from './etcd.pipe.js';
import { rowIn, rowOps } from './etcd.rows.js';
import type { EtcdSession } from './etcd.session.js';
import { EtcdSessions } from './etcd.sessions.js';
import { EtcdSweeper } from './etcd.sweeper.js';
import type { EtcdTarget } from './etcd.target.js';

interface BackendOptions extends LockStoreContext {
  readonly chance: Chance;
  readonly clientId: string;
  readonly root: string;
  readonly commandTimeoutMs: number;
  readonly loadGrpc?: () => Promise<EtcdGrpc>;
}

type SlotOf = (client: string) => number;

/** Documents, notes and mailboxes in etcd. Each write is one transaction. */
export class EtcdBackend implements SessionBackend {
  readonly address: string;
  readonly commandTimeoutMs: number;
  private readonly keys: EtcdKeys;
  private readonly client: EtcdClient;
  private readonly pipe: EtcdPipe;
  /**
   * Messages on their own, which no write has to wait for. They need no fence: the document in one that is late is older than
   * what its receiver knows.
   */
  private readonly messages: EtcdPipe;
  private readonly sessions: EtcdSessions;
  private readonly mailbox: EtcdMailbox;
  private readonly sweeper: EtcdSweeper;
  private readonly clock: Clock;
  private readonly chance: Chance;
  private listener: BackendListener | undefined;
  private notes = 0;
  private cancelSweep = (): void => undefined;

  constructor(target: EtcdTarget, options: BackendOptions) {
    const { clientId, root, clock, chance, commandTimeoutMs, watchdogTimeoutMs } = options;
    this.address = target.endpoints.join(',');
    this.clock = clock;
    this.chance = chance;
    this.commandTimeoutMs = commandTimeoutMs;
    const keys = (this.keys = new EtcdKeys(root));
    const client = (this.client = new EtcdClient(target, options));
    this.mailbox = new EtcdMailbox({
      client,
      clock,
      keys: keys.mailboxes(clientId),
      onMessage: (text, revision) => this.listener?.onMessage(text, revision),
      onGap: () => this.listener?.onGap(),
      onDeleted: () => this.sessions.check(),
    });
    this.sessions = new EtcdSessions({
      client,
      keys,
      clock,
      chance,
      clientId,
      commandTimeoutMs,
      watchdogTimeoutMs,
      onOpen: (revision) => this.mailbox.startAfter(revision),
      onRepaired: () => this.listener?.onGap(),
      onEnd: (session) => this.listener?.onSessionEnd(session),
    });
    this.sweeper = new EtcdSweeper({ client, keys, sessionId: () => this.sessions.current?.id });
    const common = { client, keys, clock, commandTimeoutMs };
    this.pipe = new EtcdPipe({
      ...common,
      session: () => this.sessions.current,
      newestRevision: () => this.mailbox.readUpTo,
      onRestored: (revision) => this.mailbox.goBackTo(revision),
      onSessionGone: (session) => this.sessions.end(session),
    });
    this.messages = new EtcdPipe({ ...common, session: () => undefined, onSessionGone: () => undefined });
    client.onOpen = () => {
      this.mailbox.watch();
      this.pipe.schedule();
      this.messages.schedule();
      inBackground(this.sessions.open(), () => undefined);
    };
    client.onRefused = () => {
      this.pipe.refuseWaiting();
      this.messages.refuseWaiting();
    };
  }

  listen(listener: BackendListener): void {
    this.listener = listener;
    this.client.start();
    this.sweepLater();
  }

  session(name: string): Promise<Session> {
    return this.sessions.open(name);
  }

  async take(take: SessionTake): Promise<SessionWriteReply> {
    const { name, notes } = take;
    checkName(name);
    const { keys } = this;
    const { leaseId: lease } = take.session as EtcdSession;
    const left = notes.map((note): RequestOp => {
      return { requestPut: { key: keys.note(name, this.newNoteId(lease)), value: Buffer.from(note), lease } };
    });
    const { version, text } = take;
    const reading = rowOps(keys, name);
    const txn: TxnRequest = {
      compare: [isFree(keys.document(name), version)],
      success: [put(keys.document(name), text), reading[1]],
      failure: [...inParts(left), ...reading],
    };
    return this.pipe.run({
      names: [name],
      key: name,
      session: take.session as EtcdSession,
      clients: [],
      toTxn: () => txn,
      depth: depthOf(txn),
      bytes: bytesOf(txn),
      toReply: (reply, revision) => {
        if (!reply.succeeded) return { isDone: false, row: rowIn(keys, name, reply.responses, revision) };
        return { isDone: true, row: this.written(name, text, reply, revision) };
      },
    });
  }

  async swap(swap: SessionSwap): Promise<SessionWriteReply> {
    const { keys } = this;
    const { name, version, text, mayDelete, isExact, notesRead, takenIn, messages } = swap;
    const document = keys.document(name);
    const compare: Compare[] = [{ key: document, target: 'MOD', result: 'EQUAL', modRevision: version }];
    if (isExact) {
      const modRevision = notesRead + 1;
      compare.push({ ...keys.notes(name), target: 'MOD', result: 'LESS', modRevision });
    }
    const deletes = takenIn.map((id) => deleted(keys.note(name, id)));
    const write = mayDelete ? deleted(document) : put(document, text);
    const reading = rowOps(keys, name);
    const toTxn = (slotOf: SlotOf): TxnRequest => ({
      compare,
      success: [write, ...inParts(deletes), ...inParts(this.messageOps(messages, slotOf)), reading[1]],
      failure: reading,
    });
    const largest = toTxn(() => MAILBOX_SLOTS - 1);
    return this.pipe.run({
      names: [name],
      key: name,
      session: swap.session as EtcdSession,
      clients: messages.clients,
      toTxn,
      depth: depthOf(largest),
      bytes: bytesOf(largest),
      toReply: (reply, revision) => {
        if (!reply.succeeded) return { isDone: false, row: rowIn(keys, name, reply.responses, revision) };
        return { isDone: true, row: this.written(name, mayDelete ? null : text, reply, revision) };
      },
    });
  }

  async read(name: string): Promise<Row> {
    checkName(name);
    const { keys } = this;
    const txn: TxnRequest = { success: rowOps(keys, name) };
    return this.pipe.run({
      names: [name],
      key: name,
      clients: [],
      toTxn: () => txn,
      depth: depthOf(txn),
      bytes: bytesOf(txn),
      toReply: ({ responses }, revision) => rowIn(keys, name, responses, revision),
    });
  }

  async endedAmong(sessions: readonly string[]): Promise<readonly string[]> {
    const { keys } = this;
    const ranges = sessions.map((id): RequestOp => ({
      requestRange: { key: keys.session(id), countOnly: true },
    }));
    const txn: TxnRequest = { success: inParts(ranges) };
    return this.pipe.run({
      names: [],
      key: undefined,
      clients: [],
      toTxn: () => txn,
      depth: depthOf(txn),
      bytes: bytesOf(txn),
      toReply: ({ responses }) => {
        const counts = flatOf(responses).map(({ responseRange }) => responseRange?.count);
        return sessions.filter((_, i) => counts[i] === 0);
      },
    });
  }

  async tell(messages: Messages): Promise<void> {
    const toTxn = (slotOf: SlotOf): TxnRequest => ({ success: inParts(this.messageOps(messages, slotOf)) });
    const largest = toTxn(() => MAILBOX_SLOTS - 1);
    await this.messages.run({
      names: [],
      key: messages.name,
      clients: messages.clients,
      toTxn,
      depth: depthOf(largest),
      bytes: bytesOf(largest),
      toReply: () => undefined,
    });
  }

  async close(keepSession: boolean): Promise<void> {
    this.cancelSweep();
    this.pipe.close();
    this.messages.close();
    this.mailbox.close();
    await this.sessions.close(keepSession);
    this.client.close();
  }

  private sweepLater(): void {
    this.cancelSweep = this.clock.after(randomMs(this.chance, SWEEP_MS), () => {
      this.sweepLater();
      // The next sweep does what this one could not.
      inBackground(this.sweeper.sweep(), () => undefined);
    });
  }

  /** The row after a write that was executed: its last operation reads the notes. */
  private written(name: string, text: string | null, { responses }: TxnReply, revision: number): Row {
    const row = rowIn(this.keys, name, [{}, ...responses.slice(-1)], revision);
    return text === null ? row : { ...row, text, version: revision, writtenAt: revision };
  }

  /** A mailbox that does not exist is that of a client that is gone. */
  private messageOps({ clients, text }: Messages, slotOf: SlotOf): readonly RequestOp[] {
    if (clients.length === 0) return [];
    const value = Buffer.from(text(0));
    return clients.map((client) => {
      const key = this.keys.mailbox(client, slotOf(client));
      return {
        requestTxn: {
          compare: [{ key, target: 'CREATE', result: 'GREATER', createRevision: 0 }],
          success: [{ requestPut: { key, value, ignoreLease: true } }],
        },
      };
    });
  }

  private newNoteId(lease: number): string {
    return `${lease.toString(16)}.${(this.notes++).toString(16).padStart(12, '0')}`;
  }
}

/** The key has the version of an emptied document, or does not exist. */
function isFree(key: Buffer, version: number | undefined): Compare {
  return { key, target: 'MOD', result: 'EQUAL', modRevision: version ?? 0 };
}

function put(key: Buffer, text: string): RequestOp {
  return { requestPut: { key, value: Buffer.from(text) } };
}

function deleted(key: Buffer): RequestOp {
  return { requestDeleteRange: { key } };
}
