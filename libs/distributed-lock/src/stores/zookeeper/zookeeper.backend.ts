import { inBackground } from '../../async-context/in-background.js';
import type { LockStoreContext } from '../../port/lock-store.js';
import { LockConfigurationError, LockStoreError } from '../../port/lock.errors.js';
import { conceal } from '../../redaction/conceal.js';
import { giveUpAfter } from '../../time/turns.js';
import { Outage } from '../common/connection/outage.js';
import { reconnectDelay } from '../common/connection/keep-alive.js';
import { placeOf, storeError, textOf, withLastError } from '../common/connection/connection-errors.js';
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
import { checkZnodeName } from './lock-path.js';
import { SessionLife, type SessionLifeOptions, type SessionLifeStart } from './session-life.js';
import { ROUND_TRIPS_PER_SESSION, type NeededLength } from './session-length.js';
import { PresenceMissing } from './writes.js';
import { BELIEVED_MS } from './znode-version.js';
import { sessionOver, zookeeperError } from './zookeeper.errors.js';

/** One client of ZooKeeper: one session after the other, each on one connection at a time. */
export class ZookeeperBackend implements SessionBackend {
  readonly commandTimeoutMs: number;
  readonly believedMs = BELIEVED_MS;
  private readonly outage: Outage;
  private listener: BackendListener | undefined;
  private own: SessionLife | undefined;
  private readonly openings = new Set<Opening>();
  private lastError: Error | undefined;
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
    this.outage = new Outage({ clock, commandTimeoutMs, onState }, () =>
      this.notReady(`no session for ${commandTimeoutMs} ms`, undefined),
    );
    this.open({ lastZxid: 0, needed: undefined });
  }

  listen(listener: BackendListener): void {
    this.listener = listener;
  }

  session(name: string | undefined): Promise<Session> {
    const { own, isClosed, options } = this;
    if (isClosed) return Promise.reject(this.closed(name));
    if (own?.canWrite) return Promise.resolve(own);
    const { clock, commandTimeoutMs } = options;
    return new Promise((resolve, reject) => {
      if (this.isRefused) return reject(this.notReady('', name));
      const cancel = giveUpAfter(clock, commandTimeoutMs, () => {
        this.openings.delete(opening);
        reject(this.notReady(`no session within ${commandTimeoutMs} ms`, name));
      });
      const opening = { cancel, resolve, reject };
      this.openings.add(opening);
    });
  }

  take(take: SessionTake): Promise<SessionWriteReply> {
    return this.run(take.name, ({ documents }) => documents.take(take), take.session);
  }

  swap(swap: SessionSwap): Promise<SessionWriteReply> {
    return this.run(swap.name, ({ documents }) => documents.swap(swap), swap.session);
  }

  read(name: string): Promise<DocumentRow> {
    return this.run(name, ({ documents }) => documents.read(name));
  }

  endedAmong(sessions: readonly string[]): Promise<readonly string[]> {
    return this.run(undefined, ({ documents }) => documents.endedAmong(sessions));
  }

  firstSession(): Promise<string | undefined> {
    return this.run(undefined, ({ documents }) => documents.firstSession());
  }

  remove(row: DocumentRow): Promise<void> {
    return this.run(row.name, ({ documents }) => documents.remove(row));
  }

  tell(messages: Messages): void {
    inBackground(
      this.run(messages.name, ({ documents }) => documents.tell(messages)),
      () => undefined,
    );
  }

  introduce({ session, ...introduction }: SessionIntroduction): Promise<void> {
    return this.run(undefined, ({ documents }) => documents.introduce(introduction), session);
  }

  readIntroductions(clientIds: readonly string[]): Promise<readonly (string | undefined)[]> {
    return this.run(undefined, ({ documents }) => documents.readIntroductions(clientIds));
  }

  list(request: NameRequest): Promise<NamePage> {
    return this.run(undefined, ({ documents }) => documents.list(request));
  }

  async close(keepSession: boolean): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    this.outage.stop();
    this.cancelReopen();
    for (const opening of this.takeOpenings()) opening.reject(this.closed(undefined));
    await this.own?.close(keepSession);
  }

  /** @param session the session that the write names, if it writes */
  private async run<Reply>(
    name: string | undefined,
    request: (own: SessionLife) => Promise<Reply>,
    session?: Session,
  ): Promise<Reply> {
    if (name !== undefined) checkZnodeName(name);
    const { own } = this;
    if (this.isClosed) throw this.closed(name);
    if (!own?.isReady || (session && session !== own)) throw sessionOver(name);
    try {
      return await request(own);
    } catch (error) {
      if (!(error instanceof PresenceMissing)) throw zookeeperError(error, name);
      this.abandon(own);
      throw sessionOver(name, error);
    }
  }

  // --- opened, over ---------------------------------------------------------------------------------------------

  private open(start: SessionLifeStart): void {
    this.outage.onDown();
    const own: SessionLife = new SessionLife(
      this.options,
      {
        onReady: () => this.onReady(own, start),
        onConnected: () => this.onConnected(own),
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

  private onReady(own: SessionLife, { needed }: SessionLifeStart): void {
    if (this.own !== own || this.isClosed) return;
    if (needed) this.warnOfDistance(needed, own.connection.timeoutMs);
    this.failures = 0;
    this.lastError = undefined;
    this.onConnected(own);
  }

  private onConnected(own: SessionLife): void {
    if (!own.canWrite) return;
    this.outage.onUp();
    for (const opening of this.takeOpenings()) opening.resolve(own);
  }

  private onDisconnected(own: SessionLife, error: Error): void {
    this.lastError = error;
    if (this.own === own) this.outage.onDown();
  }

  /** A connection that is lost while the session is made present makes it present again. */
  private onFailed(own: SessionLife, error: Error): void {
    if (this.own !== own || this.isClosed || !own.connection.isConnected) return;
    this.lastError = error instanceof LockConfigurationError ? error : zookeeperError(error, undefined);
    if (this.isRefused)
      for (const opening of this.takeOpenings()) opening.reject(this.notReady('', undefined));
    this.abandon(own);
  }

  private onEnd(own: SessionLife, error: Error): void {
    if (this.own !== own) return;
    this.lastError = error;
    this.reopen(own);
  }

  /** Ends a session that is of no more use, though its connection may be. */
  private abandon(own: SessionLife, needed?: NeededLength): void {
    if (this.own !== own || this.isClosed) return;
    inBackground(own.close(false), () => undefined);
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

  private takeOpenings(): readonly Opening[] {
    const openings = [...this.openings];
    this.openings.clear();
    for (const { cancel } of openings) cancel();
    return openings;
  }

  // --- errors ---------------------------------------------------------------------------------------------------

  /** Opening a session again will not help: its callers need not wait for that. */
  private get isRefused(): boolean {
    const { lastError } = this;
    return (
      lastError instanceof LockConfigurationError ||
      (lastError instanceof LockStoreError && lastError.reason === 'refused')
    );
  }

  private notReady(what: string, name: string | undefined): LockStoreError {
    const { lastError, own } = this;
    if (this.isRefused) return lastError as LockStoreError;
    const last = own && !own.connection.isConnected ? own.connection.error : lastError;
    const detail = withLastError(what, 'ZooKeeper', last && textOf(last));
    return storeError(placeOf('ZooKeeper', this.address), { reason: 'unreachable', detail }, name, last);
  }

  private closed(name: string | undefined): LockStoreError {
    return storeError('ZooKeeper', { reason: 'unreachable', detail: 'the store is closed' }, name);
  }
}

interface Opening {
  readonly cancel: () => void;
  resolve(session: Session): void;
  reject(error: Error): void;
}
