import { inBackground } from '../common/promises.js';
import { conceal } from '../common/redaction.js';
import { ConnectionErrors } from '../connection/connection-errors.js';
import { Openings, Outage } from '../connection/kept-connection.js';
import { reconnectDelay } from '../connection/timing.js';
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
import { PresenceMissingError } from './documents.js';
import { BELIEVED_MS, sessionOverError, zookeeperError, zookeeperFailure } from './failures.js';
import { checkZnodeName } from './lock-path.js';
import {
  type NeededLength,
  ROUND_TRIPS_PER_SESSION,
  SessionLife,
  type SessionLifeOptions,
  type SessionLifeStart,
} from './session-life.js';

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
    this.open({ lastZxid: 0, needed: undefined });
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
    return this.run(name, ({ documents }) => documents.read(name));
  }

  endedAmong(sessions: readonly string[]): Promise<readonly string[]> {
    return this.run(undefined, ({ documents }) => documents.endedAmong(sessions));
  }

  firstSession(): Promise<string | undefined> {
    return this.run(undefined, ({ documents }) => documents.firstSession());
  }

  remove(row: StoredDocument): Promise<void> {
    return this.run(row.name, ({ documents }) => documents.remove(row));
  }

  sendMessages(messages: Messages): void {
    inBackground(this.run(messages.name, ({ documents }) => documents.tell(messages)));
  }

  publishHolderEntry({ session, ...entry }: SessionHolderEntry): Promise<void> {
    return this.run(undefined, ({ documents }) => documents.publishHolderEntry(entry), session);
  }

  readHolderEntries(clientIds: readonly string[]): Promise<readonly (string | undefined)[]> {
    return this.run(undefined, ({ documents }) => documents.readHolderEntries(clientIds));
  }

  list(request: NameRequest): Promise<NamePage> {
    return this.run(undefined, ({ documents }) => documents.list(request));
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
    if (name !== undefined) checkZnodeName(name);
    const { own } = this;
    if (this.isClosed) throw this.errors.closed(name);
    if (!own?.isReady || (session && session !== own)) throw sessionOverError(name);
    try {
      return await request(own);
    } catch (error) {
      if (!(error instanceof PresenceMissingError)) throw zookeeperError(error, name);
      this.abandon(own);
      throw sessionOverError(name, error);
    }
  }

  // --- opened, over ---------------------------------------------------------------------------------------------

  private open(start: SessionLifeStart): void {
    this.outage.onDown();
    const own: SessionLife = new SessionLife(
      this.options,
      {
        onConnected: () => this.onConnected(own, start),
        onDisconnected: (error) => this.onDisconnected(own, error),
        onMessage: (text, order) => this.listener?.onMessage(text, order),
        onGap: () => this.listener?.onGap(),
        onUseless: (needed) => this.abandon(own, needed),
        onFailed: (error) => this.onFailed(own, error),
        onEnd: (error) => this.onEnd(own, error),
      },
      start,
    );
    this.own = own;
  }

  private onConnected(own: SessionLife, { needed }: SessionLifeStart): void {
    if (this.own !== own || this.isClosed || !own.canWrite) return;
    if (needed) this.warnOfDistance(needed, own.connection.timeoutMs);
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
  private abandon(own: SessionLife, needed?: NeededLength): void {
    if (this.own !== own || this.isClosed) return;
    inBackground(own.close(false));
    this.reopen(own, needed);
  }

  private reopen(own: SessionLife, needed?: NeededLength): void {
    this.own = undefined;
    this.outage.onDown();
    if (own.isReady) this.listener?.onSessionEnd(own);
    if (this.isClosed) return;
    const { clock, chance } = this.options;
    const delayMs = own.isReady || needed ? 0 : reconnectDelay(chance, this.failures++);
    this.cancelReopen = clock.after(delayMs, () => this.open({ lastZxid: own.connection.lastZxid, needed }));
  }

  private warnOfDistance({ roundTripMs, askedMs }: NeededLength, grantedMs: number): void {
    if (this.hasWarned) return;
    this.hasWarned = true;
    const { sessionMs } = this.options;
    const why = `A round trip to ZooKeeper (${this.address}) takes ${Math.round(roundTripMs)} ms, and a session must have ${ROUND_TRIPS_PER_SESSION} of them for a holder to know in time that it still has its lock.`;
    const what =
      grantedMs >= askedMs
        ? `So the session is ${grantedMs} ms long, and not watchdogTimeoutMs (${sessionMs}): a killed process keeps its locks for that long. Use nearer servers, or set watchdogTimeoutMs to ${askedMs}.`
        : `The servers grant sessions of ${grantedMs} ms at most, so locks may be lost while their holders work. Use nearer servers, or raise maxSessionTimeout of the servers to ${askedMs} or more.`;
    this.context.onWarning?.(`${why} ${what}`);
  }

  private onFailure(error: Error): void {
    this.errors.last = { failure: zookeeperFailure(error), error };
  }

  /**
   * True if ZooKeeper refused this client, for instance its credentials. A new session would be refused, too, so callers fail at
   * once.
   */
  private get isRefused(): boolean {
    return this.errors.last?.failure.reason === 'refused';
  }
}
