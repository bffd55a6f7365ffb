import { inBackground } from '../../libs/distributed-lock/src/async-context/in-background.js';
import { leaseValidity } from '../../libs/distributed-lock/src/port/lease-validity.js';
import { LockStoreError } from '../../libs/distributed-lock/src/port/lock.errors.js';
import type { LockStoreContext } from '../../libs/distributed-lock/src/port/lock-store.js';
import { DocumentStore } from '../../libs/distributed-lock/src/stores/core/document.store.js';
import type { NamePage, NameRequest } from '../../libs/distributed-lock/src/stores/core/register.js';
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
} from '../../libs/distributed-lock/src/stores/session/session-backend.js';
import { SessionRegister } from '../../libs/distributed-lock/src/stores/session/session-register.js';
import type { Clock } from '../../libs/distributed-lock/src/time/clock.js';
import type { Fate } from '../../libs/distributed-lock/src/testing/index.js';

/** Decides over each call and each notification; `undefined` lets it pass at once. May be changed at any time. */
export interface ServerFaults {
  command?: () => Fate | undefined;
  /** When a notification is delivered, in ms from now, once for each entry: `[]` is lost. */
  notification?: () => readonly number[] | undefined;
}

export const COMMAND_TIMEOUT_MS = 100;
interface StoredDocument {
  readonly text: string;
  readonly revision: number;
  readonly createdAt: number;
}

interface StoredNote {
  readonly id: string;
  readonly name: string;
  readonly text: string;
  readonly at: number;
  readonly session: string;
}

interface StoredSession {
  readonly client: string;
  endsAt: number;
  /** Writes of an earlier epoch are refused. */
  epoch: number;
}

type Deliver = (text: string, order: number) => void;

const KEEP_ALIVES_PER_SESSION = 6;

/**
 * A coordination service with sessions, one revision for each write, and a network before it that delays and loses. It has
 * no clock that clients could see.
 */
export class SessionServer {
  private readonly documents = new Map<string, StoredDocument>();
  private readonly notes = new Map<string, StoredNote>();
  private readonly sessions = new Map<string, StoredSession>();
  private readonly mailboxes = new Map<string, Deliver>();
  private readonly introductions = new Map<string, { readonly text: string; readonly session: string }>();
  /** Of the messages of one write, all together. */
  mostMessageLength = 0;
  private revision = 100;
  private clients = 0;
  private sessionCount = 0;

  constructor(readonly clock: Clock) {}

  create(context: LockStoreContext, faults: ServerFaults): DocumentStore {
    const client = `client${++this.clients}`;
    const backend = new FaultySessionBackend(client, this, context, faults);
    return new DocumentStore('sessions', client, new SessionRegister(backend, context), context);
  }

  /** It grows with each write. */
  get newestRevision(): number {
    return this.revision;
  }

  get liveSessions(): number {
    this.endSessions();
    return this.sessions.size;
  }

  connect(client: string, deliver: Deliver): void {
    this.mailboxes.set(client, deliver);
  }

  disconnect(client: string): void {
    this.mailboxes.delete(client);
  }

  open(client: string, sessionMs: number): string {
    const id = `s${++this.sessionCount}`;
    this.sessions.set(id, { client, endsAt: this.clock.now() + sessionMs, epoch: 0 });
    return id;
  }

  /** @returns whether the session was alive */
  keepAlive(id: string, sessionMs: number): boolean {
    const session = this.alive(id);
    if (session) session.endsAt = this.clock.now() + sessionMs;
    return session !== undefined;
  }

  /** As a leader does that was elected a moment ago. */
  prolongSessions(ms: number): void {
    for (const session of this.sessions.values()) session.endsAt = this.clock.now() + ms;
  }

  /** By hand, as an administrator does, or because the client has asked for it. */
  end(id: string): void {
    this.sessions.delete(id);
    for (const [note, { session }] of this.notes) if (session === id) this.notes.delete(note);
  }

  /** Ends the sessions of a client by hand. */
  endSessionsOf(client: string): void {
    for (const [id, session] of this.sessions) if (session.client === client) this.end(id);
  }

  endedAmong(ids: readonly string[]): readonly string[] {
    return ids.filter((id) => !this.alive(id));
  }

  firstSession(): string | undefined {
    this.endSessions();
    return [...this.sessions.keys()].sort()[0];
  }

  remove({ name, version, notes }: DocumentRow): void {
    if (this.documents.get(name)?.revision === version && notes.length === 0) this.deleteByHand(name);
  }

  /** @returns whether a write of this session and epoch is executed; a larger epoch ends the earlier ones */
  accepts(id: string, epoch: number): boolean {
    const session = this.alive(id);
    if (!session || epoch < session.epoch) return false;
    session.epoch = epoch;
    return true;
  }

  take({ name, seen, text, notes, session }: SessionTake): SessionWriteReply {
    const version = seen?.isFree ? seen.version : undefined;
    if (this.documents.get(name)?.revision === version) {
      this.put(name, text);
      return { isDone: true, row: this.read(name) };
    }
    if (notes.length > 0) {
      const at = ++this.revision;
      for (const [i, note] of notes.entries()) {
        const id = `${at}.${i}`;
        this.notes.set(id, { id, name, text: note, at, session: session.id });
      }
    }
    return { isDone: false, row: this.read(name) };
  }

  swap({
    name,
    version,
    text,
    mayDelete,
    isExact,
    notesRead,
    takenIn,
    messages,
  }: SessionSwap): SessionWriteReply {
    const hasUnread = [...this.notes.values()].some((note) => note.name === name && note.at > notesRead);
    const isSeen = this.documents.get(name)?.revision === version;
    if (!isSeen || (isExact && hasUnread)) return { isDone: false, row: this.read(name) };
    for (const id of takenIn) this.notes.delete(id);
    if (mayDelete && !hasUnread) {
      this.documents.delete(name);
      this.revision += 1;
    } else this.put(name, text);
    this.tell(messages);
    return { isDone: true, row: this.read(name) };
  }

  deleteByHand(name: string): void {
    this.documents.delete(name);
    this.revision += 1;
  }

  read(name: string): DocumentRow {
    this.endSessions();
    const { revision } = this;
    const document = this.documents.get(name);
    const notes = [...this.notes.values()].filter((note) => note.name === name);
    return {
      name,
      version: document?.revision,
      text: document?.text ?? null,
      writtenAt: document?.revision ?? 0,
      ...(document && { createdAt: document.createdAt }),
      revision,
      notes: notes.map(({ id, text, at }) => ({ id, text, at })),
      notesRead: revision,
    };
  }

  introduce(client: string, text: string | undefined, session: string): void {
    this.revision += 1;
    if (text === undefined) this.introductions.delete(client);
    else this.introductions.set(client, { text, session });
  }

  introductionOf(client: string): string | undefined {
    const { text, session = '' } = this.introductions.get(client) ?? {};
    return this.alive(session) && text;
  }

  list({ prefix, after = '', most }: NameRequest): NamePage {
    const isNext = (name: string) => name.startsWith(prefix) && (after === '' || name > after);
    const all = [...this.documents.keys()].filter(isNext).sort();
    const names = all.slice(0, most);
    return { names, after: names.length < all.length ? names.at(-1) : undefined };
  }

  tell({ clients, text }: Messages): void {
    this.mostMessageLength = Math.max(this.mostMessageLength, clients.length * text(0, 0).length);
    for (const client of clients) this.mailboxes.get(client)?.(text(0, 0), this.revision);
  }

  private put(name: string, text: string): void {
    const revision = ++this.revision;
    this.documents.set(name, { text, revision, createdAt: this.documents.get(name)?.createdAt ?? revision });
  }

  private alive(id: string): StoredSession | undefined {
    this.endSessions();
    return this.sessions.get(id);
  }

  private endSessions(): void {
    const now = this.clock.now();
    for (const [id, { endsAt }] of this.sessions) if (endsAt <= now) this.end(id);
  }
}

interface SessionLife extends Session {
  validUntil: number;
}

interface SendOptions {
  readonly session?: Session;
}

/** One client: each write is one request to the server. */
class FaultySessionBackend implements SessionBackend {
  readonly commandTimeoutMs = COMMAND_TIMEOUT_MS;
  private readonly sessionMs: number;
  private readonly cancels = new Set<() => void>();
  private listener: BackendListener | undefined;
  private current: SessionLife | undefined;
  private opening: Promise<Session> | undefined;
  /** Raised after a write without an answer, so that no such write is executed after a later one. */
  private epoch = 0;
  private isClosed = false;
  private keepingAlive: { unsubscribe(): void } | undefined;

  constructor(
    private readonly client: string,
    private readonly server: SessionServer,
    private readonly context: LockStoreContext,
    private readonly faults: ServerFaults,
  ) {
    this.sessionMs = context.watchdogTimeoutMs;
  }

  listen(listener: BackendListener): void {
    this.listener = listener;
    this.server.connect(this.client, (text, order) => {
      for (const ms of this.faults.notification?.() ?? [0]) {
        // Not within the call of the client that sends.
        this.after(ms, () => queueMicrotask(() => this.isClosed || listener.onMessage(text, order)));
      }
    });
  }

  session(name = ''): Promise<Session> {
    if (this.current) return Promise.resolve(this.current);
    return (this.opening ??= this.openSession(name).finally(() => (this.opening = undefined)));
  }

  take(write: SessionTake): Promise<SessionWriteReply> {
    return this.send([write.name], () => this.server.take(write), write);
  }

  swap(write: SessionSwap): Promise<SessionWriteReply> {
    return this.send([write.name], () => this.server.swap(write), write);
  }

  read(name: string): Promise<DocumentRow> {
    return this.send([name], () => this.server.read(name));
  }

  endedAmong(sessions: readonly string[]): Promise<readonly string[]> {
    return this.send([], () => this.server.endedAmong(sessions));
  }

  firstSession(): Promise<string | undefined> {
    return this.send([], () => this.server.firstSession());
  }

  remove(row: DocumentRow): Promise<void> {
    return this.send([row.name], () => this.server.remove(row));
  }

  tell(messages: Messages): void {
    inBackground(
      this.send([], () => this.server.tell(messages)),
      () => undefined,
    );
  }

  introduce({ clientId, text, session }: SessionIntroduction): Promise<void> {
    return this.send([], () => this.server.introduce(clientId, text, session.id));
  }

  readIntroductions(clientIds: readonly string[]): Promise<readonly (string | undefined)[]> {
    return this.send([], () => clientIds.map((id) => this.server.introductionOf(id)));
  }

  list(request: NameRequest): Promise<NamePage> {
    return this.send([], () => this.server.list(request));
  }

  async close(keepSession: boolean): Promise<void> {
    this.isClosed = true;
    this.keepingAlive?.unsubscribe();
    this.server.disconnect(this.client);
    for (const cancel of this.cancels) cancel();
    this.cancels.clear();
    if (this.current && !keepSession) this.server.end(this.current.id);
  }

  private async openSession(name: string): Promise<Session> {
    const sentAt = this.context.clock.now();
    const opened = this.send([name], () => this.server.open(this.client, this.sessionMs));
    const id = await opened.catch((error: LockStoreError) => {
      throw new LockStoreError(error.message, name, 'unready', { cause: error });
    });
    this.epoch = 0;
    const session = { id, validUntil: leaseValidity(sentAt, this.sessionMs) };
    this.current = session;
    const everyMs = this.sessionMs / KEEP_ALIVES_PER_SESSION;
    this.keepingAlive?.unsubscribe();
    this.keepingAlive = this.context.clock
      .interval(everyMs)
      .subscribe(() => inBackground(this.keepAlive(session), () => undefined));
    return session;
  }

  private async keepAlive(session: SessionLife): Promise<void> {
    const sentAt = this.context.clock.now();
    const isAlive = await this.send([], () => this.server.keepAlive(session.id, this.sessionMs));
    if (this.current !== session || this.isClosed) return;
    if (isAlive) session.validUntil = leaseValidity(sentAt, this.sessionMs);
    else this.onSessionEnd(session);
  }

  private onSessionEnd(session: SessionLife): void {
    if (this.current !== session) return;
    session.validUntil = -Infinity;
    this.current = undefined;
    this.keepingAlive?.unsubscribe();
    this.listener?.onSessionEnd(session);
  }

  /** @param execute one atomic write of the server; with a session, one that this session and its epoch must allow */
  private send<Reply>(
    names: readonly string[],
    execute: () => Reply,
    { session }: SendOptions = {},
  ): Promise<Reply> {
    const fate = this.faults.command?.() ?? {};
    const { executedAfterMs = [0], repliedAfterMs = 0 } = fate;
    const [name = ''] = names;
    if (this.isClosed) return Promise.reject(new LockStoreError('The store is closed', name, 'unready'));
    if (session && session !== this.current) return Promise.reject(sessionOver(name));
    const { epoch, current } = this;
    return new Promise((resolve, reject) => {
      let isAnswered = false;
      const cancelTimeout = this.after(COMMAND_TIMEOUT_MS, () => {
        if (session) this.epoch += 1;
        reject(new LockStoreError('The network lost it: nothing came back', name, 'unknown'));
      });
      const answer = (settle: () => void): void => {
        if (repliedAfterMs === 'never') return;
        this.after(repliedAfterMs, () => {
          isAnswered = true;
          cancelTimeout();
          settle();
        });
      };
      for (const [i, ms] of executedAfterMs.entries()) {
        this.afterOnServer(ms, () => {
          if (isAnswered) return;
          const first = i === 0 ? answer : () => undefined;
          if (session && !this.server.accepts(session.id, epoch))
            return first(() => {
              if (this.server.endedAmong([session.id]).length > 0) this.onSessionEnd(session);
              reject(sessionOver(name));
            });
          // A reading is not refused, but no earlier write comes after it either.
          if (!session && current) this.server.accepts(current.id, epoch);
          const reply = execute();
          first(() => resolve(reply));
        });
      }
    });
  }

  /** Of this client: a crash or a close ends it. At once when there is nothing to wait for. */
  private after(ms: number, task: () => void): () => void {
    if (ms <= 0) {
      task();
      return () => undefined;
    }
    let isCancelled = false;
    const stop = this.server.clock.after(ms, () => {
      this.cancels.delete(cancel);
      if (!isCancelled) task();
    });
    const cancel = (): void => {
      isCancelled = true;
      stop();
    };
    this.cancels.add(cancel);
    return () => {
      this.cancels.delete(cancel);
      cancel();
    };
  }

  /** Of the network: what was sent is executed even if its client is gone. */
  private afterOnServer(ms: number, task: () => void): void {
    if (ms <= 0) task();
    else this.server.clock.after(ms, task);
  }
}

function sessionOver(name: string): LockStoreError {
  return new LockStoreError('The session of this client is over', name, 'unready');
}
