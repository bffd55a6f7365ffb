import { ignoreFailure } from '../common/promises.js';
import { conceal } from '../common/redaction.js';
import { ConnectionErrors, type StoreFailure, textOf } from '../connection/connection-errors.js';
import { Openings, Outage } from '../connection/kept-connection.js';
import { reconnectDelay } from '../connection/timing.js';
import type { NamePage, NameRequest } from '../document/timed-register.js';
import type { LockStoreContext } from '../port/lock-store.js';
import { LockConfigurationError, LockStoreError } from '../port/lock.errors.js';
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
import { ZookeeperError } from './client/protocol.js';
import { PresenceMissingError } from './documents.js';
import { SessionLife, type SessionLifeOptions } from './session-life.js';
import { LockPaths } from './znodes.js';

/**
 * For how long, in ms, a client may use a version that it has read. A znode that is deleted and created again starts at version
 * 0, so an old version could match a new document. The sweeper therefore deletes a document only if it was not written for twice
 * this time.
 */
export const BELIEVED_MS = 5 * 60_000;

/**
 * The ZooKeeper side of `SessionBackend`: reads and writes documents, notes and mailboxes as znodes (docs/document-stores.md).
 * Has one session at a time, and opens the next one when it ends.
 */
export class ZookeeperBackend implements SessionBackend {
  readonly commandTimeoutMs: number;
  readonly believedMs = BELIEVED_MS;
  private readonly outage: Outage;
  private listener: BackendListener | undefined;
  private own: SessionLife | undefined;
  private readonly openings: Openings<Session>;
  private readonly errors: ConnectionErrors;
  private failures = 0;
  private isClosed = false;
  private hasWarned = false;
  private cancelReopen = (): void => undefined;

  constructor(
    private readonly options: SessionLifeOptions,
    private readonly context: Pick<LockStoreContext, 'onState' | 'onWarning'>,
    readonly address: string,
  ) {
    conceal(this, 'options', 'own', 'context');
    const { onState } = context;
    const { clock, commandTimeoutMs } = options;
    this.commandTimeoutMs = commandTimeoutMs;
    this.errors = new ConnectionErrors('ZooKeeper', address);
    this.openings = new Openings(clock);
    this.outage = new Outage({ clock, commandTimeoutMs, onState }, () =>
      this.errors.noConnection(`no session for ${commandTimeoutMs} ms`),
    );
    this.open();
  }

  listen(listener: BackendListener): void {
    this.listener = listener;
  }

  session(name: string | undefined): Promise<Session> {
    const { own, errors, commandTimeoutMs: withinMs } = this;
    if (this.isClosed) return Promise.reject(errors.closed(name));
    if (own?.canWrite) return Promise.resolve(own);
    const lateError = (): Error => errors.unsent(`no session within ${withinMs} ms`, name);
    if (this.isRefused) return Promise.reject(lateError());
    return this.openings.wait({ key: name, withinMs, lateError });
  }

  take(take: SessionTake): Promise<SessionWriteReply> {
    return this.run(take.name, ({ documents }) => documents.take(take), take.session);
  }

  swap(swap: SessionSwap): Promise<SessionWriteReply> {
    return this.run(swap.name, ({ documents }) => documents.swap(swap), swap.session);
  }

  read(name: string): Promise<StoredDocument> {
    return this.run(name, ({ znodes }) => znodes.read(name));
  }

  endedAmong(sessions: readonly string[]): Promise<readonly string[]> {
    return this.run(undefined, ({ znodes }) => znodes.endedAmong(sessions));
  }

  firstSession(): Promise<string | undefined> {
    return this.run(undefined, ({ znodes }) => znodes.firstSession());
  }

  remove(row: StoredDocument): Promise<void> {
    return this.run(row.name, ({ documents }) => documents.remove(row));
  }

  sendMessages(messages: Messages): void {
    ignoreFailure(this.run(messages.name, ({ documents }) => documents.tell(messages)));
  }

  publishHolderEntry({ session, ...entry }: SessionHolderEntry): Promise<void> {
    return this.run(undefined, ({ documents }) => documents.publishHolderEntry(entry), session);
  }

  readHolderEntries(clientIds: readonly string[]): Promise<readonly (string | undefined)[]> {
    return this.run(undefined, ({ znodes }) => znodes.readHolderEntries(clientIds));
  }

  list(request: NameRequest): Promise<NamePage> {
    return this.run(undefined, ({ znodes }) => znodes.list(request));
  }

  async close(keepSession: boolean): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    this.outage.stop();
    this.cancelReopen();
    this.openings.refuse((name) => this.errors.closed(name));
    await this.own?.close(keepSession);
  }

  /**
   * Runs one request of the store on the session that is open now.
   *
   * @param session for a write: the session that the written text names. If it is not the open one, the write is refused.
   */
  private async run<Reply>(
    name: string | undefined,
    request: (own: SessionLife) => Promise<Reply>,
    session?: Session,
  ): Promise<Reply> {
    if (name !== undefined) LockPaths.check(name);
    const { own, errors } = this;
    if (this.isClosed) throw errors.closed(name);
    if (!own?.isReady || (session && session !== own)) throw errors.of(SESSION_OVER, name);
    try {
      return await request(own);
    } catch (error) {
      if (error instanceof LockStoreError) throw error;
      if (!(error instanceof PresenceMissingError)) throw errors.of(failureOf(error), name, error);
      this.abandon(own);
      throw errors.of(SESSION_OVER, name, error);
    }
  }

  private open(last?: SessionLife): void {
    this.outage.onDown();
    const own: SessionLife = new SessionLife(
      this.options,
      {
        onConnected: () => this.onConnected(own),
        onDisconnected: (error) => this.onDisconnected(own, error),
        onMessage: (text, order) => this.listener?.onMessage(text, order),
        onGap: () => this.listener?.onGap(),
        onUseless: () => this.abandon(own),
        onFailed: (error) => this.onFailed(own, error),
        onEnd: (error) => this.onEnd(own, error),
      },
      last,
    );
    this.own = own;
  }

  private onConnected(own: SessionLife): void {
    if (this.own !== own || this.isClosed || !own.canWrite) return;
    const warning = this.hasWarned ? undefined : own.distanceWarning(this.address);
    if (warning !== undefined) {
      this.hasWarned = true;
      this.context.onWarning?.(warning);
    }
    this.failures = 0;
    this.errors.last = undefined;
    this.outage.onUp();
    this.openings.onOpen(own);
  }

  private onDisconnected(own: SessionLife, error: Error): void {
    if (this.own !== own) return;
    this.onFailure(error);
    this.outage.onDown();
  }

  /**
   * Called when a session could not create its presence, the ephemeral znode by which other clients see that it lives. Ends the
   * session. If only the connection was lost, keeps it: `SessionLife` tries again on the next connection.
   */
  private onFailed(own: SessionLife, error: Error): void {
    if (this.own !== own || this.isClosed || !own.connection.isConnected) return;
    this.onFailure(error);
    if (this.isRefused) this.openings.refuse((name) => this.errors.unsent('no session', name));
    this.abandon(own);
  }

  private onEnd(own: SessionLife, error: Error): void {
    if (this.own !== own) return;
    this.onFailure(error);
    this.reopen(own);
  }

  /** Closes a session that cannot be used any more, even if its connection is fine, and opens a new one. */
  private abandon(own: SessionLife): void {
    if (this.own !== own || this.isClosed) return;
    ignoreFailure(own.close(false));
    this.reopen(own);
  }

  private reopen(own: SessionLife): void {
    this.own = undefined;
    this.outage.onDown();
    if (own.isReady) this.listener?.onSessionEnd(own);
    if (this.isClosed) return;
    const { clock, chance } = this.options;
    const delayMs = own.isReady || own.needed ? 0 : reconnectDelay(chance, this.failures++);
    this.cancelReopen = clock.after(delayMs, () => this.open(own));
  }

  private onFailure(error: Error): void {
    this.errors.last = { failure: failureOf(error), error };
  }

  /**
   * True if ZooKeeper refused this client, for instance its credentials. A new session would be refused, too, so callers fail at
   * once.
   */
  private get isRefused(): boolean {
    return this.errors.last?.failure.reason === 'refused';
  }
}

const SESSION_OVER: StoreFailure = {
  reason: 'unready',
  detail: 'the session of this client is over, and what it held is lost. Try again',
};

/** Says what an error of the ZooKeeper client means for the request that failed. */
function failureOf(error: unknown): StoreFailure {
  const detail = textOf(error);
  if (error instanceof LockConfigurationError) return { reason: 'refused', detail };
  return { reason: error instanceof ZookeeperError ? error.reason : 'unknown', detail };
}
