import { ignoreFailure } from '../../libs/distributed-lock/src/common/promises.js';
import { leaseValidity } from '../../libs/distributed-lock/src/port/timing.js';
import { LockStoreError } from '../../libs/distributed-lock/src/port/lock.errors.js';
import type {
  BackendListener,
  StoredDocument,
  Messages,
  Session,
  SessionBackend,
  SessionSwap,
  SessionTake,
  SessionWriteReply,
} from '../../libs/distributed-lock/src/session/backend.js';
import type { Clock } from '../../libs/distributed-lock/src/common/clock.js';

export const COMMAND_TIMEOUT_MS = 100;
export const SESSION_MS = 30_000;
export const KEEP_ALIVE_MS = SESSION_MS / 6;

/** What becomes of a request: `lost` on its way, or executed and its reply lost. */
export type Fate = 'lost' | 'unanswered';

/** What is between one client and the server. */
export interface Network {
  /** Of the next request; `undefined` lets it pass. */
  nextFate(): Fate | undefined;
  /** How late each message comes; `undefined` loses it. */
  readonly pushesAfterMs: number | undefined;
}

type Deliver = (text: string, order: number) => void;

/** A coordination service with sessions, and one revision for each write. It has no clock that clients could see. */
export class SessionServer {
  private readonly documents = new Map<string, { text: string; revision: number; createdAt: number }>();
  private notes: { id: string; name: string; text: string; at: number; session: string }[] = [];
  private readonly sessions = new Map<string, { client: string; endsAt: number }>();
  readonly mailboxes = new Map<string, Deliver>();
  /** Of the messages of one write, all together. */
  mostMessageLength = 0;
  private sessionCount = 0;
  /** It grows with each write. */
  newestRevision = 100;

  constructor(readonly clock: Clock) {}

  get liveSessions(): number {
    this.endSessions();
    return this.sessions.size;
  }

  open(client: string): string {
    const id = `s${++this.sessionCount}`;
    this.sessions.set(id, { client, endsAt: this.clock.now() + SESSION_MS });
    return id;
  }

  /** @returns whether the session was alive */
  keepAlive(id: string): boolean {
    this.endSessions();
    const session = this.sessions.get(id);
    if (session) session.endsAt = this.clock.now() + SESSION_MS;
    return session !== undefined;
  }

  /** As a leader does that was elected a moment ago. */
  prolongSessions(): void {
    for (const session of this.sessions.values()) session.endsAt = this.clock.now() + SESSION_MS;
  }

  end(id: string): void {
    this.sessions.delete(id);
    this.notes = this.notes.filter(({ session }) => session !== id);
  }

  endSessionsOf(client: string): void {
    for (const [id, session] of this.sessions) if (session.client === client) this.end(id);
  }

  endedAmong(ids: readonly string[]): readonly string[] {
    this.endSessions();
    return ids.filter((id) => !this.sessions.has(id));
  }

  take({ name, seen, text, notes, session }: SessionTake): SessionWriteReply {
    const version = seen?.isFree ? seen.version : undefined;
    const isDone = this.documents.get(name)?.revision === version;
    if (isDone) this.put(name, text);
    else if (notes.length > 0) {
      const at = ++this.newestRevision;
      const stored = notes.map((note, i) => ({
        id: `${at}.${i}`,
        name,
        text: note,
        at,
        session: session.id,
      }));
      this.notes.push(...stored);
    }
    return { isDone, row: this.read(name) };
  }

  swap({ name, version, text, mayDelete, failOnUnreadNotes, ...write }: SessionSwap): SessionWriteReply {
    const hasUnread = this.notes.some((note) => note.name === name && note.at > write.notesRead);
    const isSeen = this.documents.get(name)?.revision === version;
    if (!isSeen || (failOnUnreadNotes && hasUnread)) return { isDone: false, row: this.read(name) };
    this.notes = this.notes.filter(({ id }) => !write.mergedNotes.includes(id));
    if (mayDelete && !hasUnread) this.deleteByHand(name);
    else this.put(name, text);
    this.tell(write.messages);
    return { isDone: true, row: this.read(name) };
  }

  deleteByHand(name: string): void {
    this.documents.delete(name);
    this.newestRevision += 1;
  }

  read(name: string): StoredDocument {
    this.endSessions();
    const document = this.documents.get(name);
    const [revision, version] = [this.newestRevision, document?.revision];
    const notes = this.notes.filter((note) => note.name === name);
    const row = { name, version, text: document?.text ?? null, writtenAt: version ?? 0, revision, notes };
    return { ...row, ...(document && { createdAt: document.createdAt }), notesRead: revision };
  }

  tell({ clients, text }: Messages): void {
    this.mostMessageLength = Math.max(this.mostMessageLength, clients.length * text(0, 0).length);
    for (const client of clients) this.mailboxes.get(client)?.(text(0, 0), this.newestRevision);
  }

  private put(name: string, text: string): void {
    const revision = ++this.newestRevision;
    this.documents.set(name, { text, revision, createdAt: this.documents.get(name)?.createdAt ?? revision });
  }

  private endSessions(): void {
    const now = this.clock.now();
    for (const [id, { endsAt }] of this.sessions) if (endsAt <= now) this.end(id);
  }
}

/** One client: each write is one request to the server. */
export class NetworkedBackend implements SessionBackend {
  readonly commandTimeoutMs = COMMAND_TIMEOUT_MS;
  private listener: BackendListener | undefined;
  private current: { id: string; validUntil: number } | undefined;
  private opening: Promise<Session> | undefined;
  private isClosed = false;
  private keepingAlive: { unsubscribe(): void } | undefined;

  constructor(
    private readonly client: string,
    private readonly server: SessionServer,
    private readonly network: Network,
  ) {}

  listen(listener: BackendListener): void {
    this.listener = listener;
    // Not within the call of the client that sends.
    const deliver: Deliver = (text, order) =>
      queueMicrotask(() => this.isClosed || listener.onMessage(text, order));
    this.server.mailboxes.set(this.client, (text, order) => {
      const { pushesAfterMs: ms } = this.network;
      if (ms === 0) deliver(text, order);
      else if (ms !== undefined) this.server.clock.after(ms, () => deliver(text, order));
    });
  }

  session(name = ''): Promise<Session> {
    if (this.current) return Promise.resolve(this.current);
    return (this.opening ??= this.openSession(name).finally(() => (this.opening = undefined)));
  }

  take(write: SessionTake): Promise<SessionWriteReply> {
    return this.send(write.name, () => this.server.take(write), write.session);
  }

  swap(write: SessionSwap): Promise<SessionWriteReply> {
    return this.send(write.name, () => this.server.swap(write), write.session);
  }

  read(name: string): Promise<StoredDocument> {
    return this.send(name, () => this.server.read(name));
  }

  endedAmong(sessions: readonly string[]): Promise<readonly string[]> {
    return this.send('', () => this.server.endedAmong(sessions));
  }

  sendMessages(messages: Messages): void {
    ignoreFailure(this.send('', () => this.server.tell(messages)));
  }

  async close(keepSession: boolean): Promise<void> {
    this.isClosed = true;
    this.keepingAlive?.unsubscribe();
    this.server.mailboxes.delete(this.client);
    if (this.current && !keepSession) this.server.end(this.current.id);
  }

  // No test asks for what the others are for.
  firstSession = async () => undefined;
  remove = async () => undefined;
  publishHolderEntry = async () => undefined;
  readHolderEntries = async () => [];
  list = async () => ({ names: [], after: undefined });

  private async openSession(name: string): Promise<Session> {
    const sentAt = this.server.clock.now();
    const id = await this.send(name, () => this.server.open(this.client)).catch((cause: Error) => {
      throw new LockStoreError(cause.message, name, 'unready', { cause });
    });
    const session = { id, validUntil: leaseValidity(sentAt, SESSION_MS) };
    this.current = session;
    this.keepingAlive?.unsubscribe();
    this.keepingAlive = this.server.clock
      .interval(KEEP_ALIVE_MS)
      .subscribe(() => ignoreFailure(this.keepAlive(session)));
    return session;
  }

  private async keepAlive(session: { id: string; validUntil: number }): Promise<void> {
    const sentAt = this.server.clock.now();
    const isAlive = await this.send('', () => this.server.keepAlive(session.id));
    if (this.current !== session || this.isClosed) return;
    if (isAlive) session.validUntil = leaseValidity(sentAt, SESSION_MS);
    else this.onSessionEnd();
  }

  private onSessionEnd(): void {
    const session = this.current;
    if (!session) return;
    session.validUntil = -Infinity;
    this.current = undefined;
    this.keepingAlive?.unsubscribe();
    this.listener?.onSessionEnd(session);
  }

  /** @param execute one atomic request; with a session, one that this session must allow */
  private async send<Reply>(name: string, execute: () => Reply, session?: Session): Promise<Reply> {
    if (this.isClosed) throw new LockStoreError('The store is closed', name, 'unready');
    const over = new LockStoreError('The session of this client is over', name, 'unready');
    if (session && session !== this.current) throw over;
    const fate = this.network.nextFate();
    const isOver = session !== undefined && this.server.endedAmong([session.id]).length > 0;
    const reply = isOver || fate === 'lost' ? undefined : execute();
    if (fate) {
      await new Promise<void>((resolve) => this.server.clock.after(COMMAND_TIMEOUT_MS, resolve));
      throw new LockStoreError('The network lost it: nothing came back', name, 'unknown');
    }
    if (!isOver) return reply as Reply;
    if (session === this.current) this.onSessionEnd();
    throw over;
  }
}
