import { Delays } from '../common/clock.js';
import { ignoreFailure } from '../common/promises.js';
import { LockConfigurationError, LockStoreError } from '../port/lock.errors.js';
import { leaseValidity } from '../port/timing.js';
import type { Session } from '../session/backend.js';
import type { EtcdContext } from './client.js';
import type { Compare, EtcdKeyValue, RequestOp, WatchReply } from './grpc.js';
import { etcdFailure, type EtcdMember } from './member.js';

/** How many keep-alives the client sends per length of the session's lease. */
export const KEEP_ALIVES = 6;
/** The pause before the next try after a keep-alive failed or a session could not be opened. */
const RETRY_MS = 100;
/** The client chooses the id of its lease. etcd allows up to 2 ** 63, but JavaScript numbers are exact only up to this one. */
const LARGEST_ID = Number.MAX_SAFE_INTEGER;

/**
 * Opens the session of this client, keeps it alive, and opens a new one when it has ended. A session is a lease of etcd and the
 * presence key under it.
 */
export class EtcdSessions {
  current: EtcdSession | undefined;
  private opening: Promise<EtcdSession> | undefined;
  private readonly delays: Delays;
  private isChecking = false;
  private isClosed = false;

  constructor(private readonly options: SessionsOptions) {
    this.delays = new Delays(options.clock);
  }

  /**
   * Returns the open session, or opens one.
   *
   * @throws LockStoreError when none can be opened in time
   * @throws LockConfigurationError when etcd grants a shorter lease than the store needs
   */
  open(key?: string): Promise<EtcdSession> {
    if (this.current) return Promise.resolve(this.current);
    this.opening ??= this.openNew(key).finally(() => (this.opening = undefined));
    return this.opening.catch((error: unknown) => {
      throw this.forKey(error, key);
    });
  }

  /**
   * Called when the client's mailbox was deleted. Asks etcd at once whether the session still exists, and if so, writes
   * the mailbox again.
   */
  check(): void {
    const session = this.current;
    if (!session || this.isChecking) return;
    this.isChecking = true;
    const checked = this.keepAlive(session).then(async () => {
      if (this.current !== session) return;
      await this.writeMailbox(session);
      this.options.onRepaired();
    });
    ignoreFailure(checked.finally(() => (this.isChecking = false)));
  }

  /** Called when etcd no longer has this session. Reports the end, and opens the next session. */
  end(session: EtcdSession): void {
    if (session.isOver) return;
    session.validUntil = -Infinity;
    if (this.current === session) this.current = undefined;
    // The lease may still exist, if somebody has deleted only the presence key. Revoke it, so that etcd deletes this session's
    // notes, too.
    ignoreFailure(this.quietly('LeaseRevoke', session));
    this.options.onEnd(session);
    if (!this.isClosed) ignoreFailure(this.open());
  }

  async close(keepSession: boolean): Promise<void> {
    this.isClosed = true;
    this.delays.endAll();
    const session = this.current;
    this.current = undefined;
    if (!session || !this.options.client.member) return;
    // With `keepSession`, a last keep-alive lets the session live for one more full length. Without it, the session ends now.
    await this.quietly(keepSession ? 'LeaseKeepAlive' : 'LeaseRevoke', session);
  }

  private async openNew(key: string | undefined): Promise<EtcdSession> {
    const { clock, commandTimeoutMs } = this.options;
    const giveUpAt = clock.now() + commandTimeoutMs;
    for (;;) {
      try {
        return await this.openOnce(key);
      } catch (error) {
        // A new try is safe even if etcd has granted the lease and only the reply got lost. Nobody uses that lease, and it
        // expires.
        const mayRepeat = error instanceof LockStoreError && error.reason !== 'refused';
        if (!mayRepeat || this.isClosed || clock.now() >= giveUpAt) throw error;
        await this.delays.wait(RETRY_MS);
      }
    }
  }

  private async openOnce(key: string | undefined): Promise<EtcdSession> {
    const { client, clock, chance, watchdogTimeoutMs, onOpen } = this.options;
    const ID = 1 + Math.floor(chance.random() * LARGEST_ID);
    const asked = Math.ceil(watchdogTimeoutMs / 1000);
    const sentAt = clock.now();
    const { TTL } = await client.call('LeaseGrant', { ID, TTL: asked }, { key });
    if (TTL < asked) {
      throw new LockConfigurationError(
        `watchdogTimeoutMs (${watchdogTimeoutMs}) needs a lease of ${asked} s, and etcd grants ${TTL} s. Lower watchdogTimeoutMs.`,
      );
    }
    const session = new EtcdSession(ID, TTL * 1000, sentAt);
    const revision = await this.writeMailbox(session, key);
    if (this.isClosed) {
      ignoreFailure(this.quietly('LeaseRevoke', session));
      throw client.errors.closed(key);
    }
    this.current = session;
    onOpen(revision);
    ignoreFailure(this.keepAliveAlways(session));
    return session;
  }

  /**
   * Writes the client's mailbox, and for a new session its presence key.
   *
   * @returns the revision of the write
   */
  private async writeMailbox(session: EtcdSession, key?: string): Promise<number> {
    const { client, keys, clientId } = this.options;
    const lease = session.leaseId;
    const success: RequestOp[] = [
      { requestPut: { key: keys.mailbox(clientId), value: Buffer.alloc(0), lease } },
    ];
    const compare: Compare[] = [];
    if (session !== this.current) {
      const presence = keys.session(session.id);
      // etcd may execute a repetition of this transaction late. It must not set an epoch back that was raised meanwhile.
      compare.push({ key: presence, target: 'CREATE', result: 'EQUAL', createRevision: 0 });
      success.push({ requestPut: { key: presence, value: EtcdSession.epochText(session.epoch), lease } });
    }
    const { header } = await client.call('Txn', { compare, success }, { key, mayRepeat: true });
    return header?.revision ?? 0;
  }

  private async keepAliveAlways(session: EtcdSession): Promise<void> {
    const { clock } = this.options;
    const everyMs = session.lengthMs / KEEP_ALIVES;
    let next = session.sentAt + everyMs;
    // Checked before each wait as well: `close` may run while a keep-alive is under way, and then this loop must not start
    // another timer.
    while (this.current === session) {
      await this.delays.wait(Math.max(0, next - clock.now()));
      if (this.current !== session) return;
      const sentAt = clock.now();
      next = sentAt + everyMs;
      try {
        await this.keepAlive(session);
      } catch {
        next = Math.min(next, clock.now() + RETRY_MS);
      }
    }
  }

  /**
   * Sends one keep-alive, and makes sure that it counts.
   *
   * A leader renews leases without asking its followers. If it is cut off from them, it goes on doing so for up to two election
   * timeouts, in which the others may elect a new leader that knows nothing of the renewal. So the client then reads the presence
   * key (a linearizable read). The keep-alive counts only if both replies have the same Raft term, because then the leader was
   * still the leader.
   */
  private async keepAlive(session: EtcdSession): Promise<void> {
    const { client, clock, keys } = this.options;
    const sentAt = clock.now();
    const alive = await client.call('LeaseKeepAlive', { ID: session.leaseId }, { mayRepeat: true });
    const requestRange = { key: keys.session(session.id), countOnly: true };
    const { header, responses } = await client.call(
      'Txn',
      { success: [{ requestRange }] },
      { mayRepeat: true },
    );
    if (responses[0]?.responseRange?.count === 0) return this.end(session);
    // The presence key exists, but the member does not know the lease: it lags behind, or the lease has expired and is not
    // revoked yet.
    if (alive.TTL <= 0) throw new Error('a member does not have the lease, and etcd has its key');
    if (header?.raftTerm !== alive.header?.raftTerm) throw new Error('another leader was elected meanwhile');
    session.onAlive(sentAt);
  }

  /** Sends a request and ignores its failure: without it the lease expires by itself. */
  private async quietly(name: 'LeaseKeepAlive' | 'LeaseRevoke', { leaseId: ID }: EtcdSession): Promise<void> {
    await this.options.client.call(name, { ID }, { mayRepeat: true }).catch(() => undefined);
  }

  /** Several requests wait for one opening of the session. If it fails, each of them gets an error that names its own key. */
  private forKey(error: unknown, key: string | undefined): unknown {
    if (!(error instanceof LockStoreError) || (error.key === key && error.reason !== 'unknown')) return error;
    // Whether etcd granted a lease or not, it did nothing for the caller's lock. So the caller gets `unready`, not `unknown`.
    const reason = error.reason === 'unknown' ? 'unready' : error.reason;
    return new LockStoreError(error.message, key, reason, { cause: error });
  }
}

interface SessionsOptions extends EtcdContext {
  /** Called with the revision of the write that created the presence and the mailbox. */
  readonly onOpen: (revision: number) => void;
  /** Called when the mailbox was written again after somebody had deleted it. Messages sent in between were lost. */
  readonly onRepaired: () => void;
  readonly onEnd: (session: EtcdSession) => void;
}

/** One session of this client: a lease of etcd. */
export class EtcdSession implements Session {
  readonly id: string;
  validUntil: number;
  /** The number in the presence key that fences late writes (`EtcdPipe`). Raised after each write whose reply was lost. */
  epoch = 1;
  /** The reply to a write was lost, and etcd may execute that write later. So the next transaction must raise the epoch. */
  needsFence = false;

  /** @param sentAt when the client sent its request for the lease, by our clock */
  constructor(
    readonly leaseId: number,
    readonly lengthMs: number,
    readonly sentAt: number,
  ) {
    this.id = leaseId.toString(16);
    this.validUntil = leaseValidity(sentAt, lengthMs);
  }

  /** An epoch as the value of the presence key. etcd compares values as bytes, so all have the same length and sort as numbers do. */
  static epochText(epoch: number): Buffer {
    return Buffer.from(epoch.toString(16).padStart(13, '0'));
  }

  /** Called when etcd has answered the keep-alive that was sent at `sentAt`. Extends the validity, which counts from that time. */
  onAlive(sentAt: number): void {
    if (!this.isOver) this.validUntil = Math.max(this.validUntil, leaseValidity(sentAt, this.lengthMs));
  }

  get isOver(): boolean {
    return this.validUntil === -Infinity;
  }
}

const REWATCH_MS = 200;

/**
 * Watches the mailbox of this client: the key into which other clients write their messages. A watch that is started again
 * continues from the revision where the last one stopped, so no message is missed unless etcd has compacted that revision away.
 */
export class EtcdMailbox {
  private stream: WatchStream | undefined;
  private member: EtcdMember | undefined;
  /** The first revision that the next watch asks for; 0 until the mailbox was written for the first time. */
  private from = 0;
  private isFirst = true;
  private cancelRetry = (): void => undefined;

  constructor(private readonly options: MailboxOptions) {}

  /** Starts the watch. `revision` is that of the write which created the mailbox. */
  startAfter(revision: number): void {
    if (this.from === 0) this.from = revision + 1;
    this.goBackTo(revision);
    this.watch();
  }

  /** All messages up to this revision have been received. */
  get readUpTo(): number {
    return this.from - 1;
  }

  /** Called when etcd was restored from a snapshot. Its revisions start again at an earlier number, so watch from there. */
  goBackTo(revision: number): void {
    if (this.from <= revision + 1) return;
    this.stop();
    this.from = revision + 1;
    this.options.onGap();
    this.watch();
  }

  /** Starts a watch at the connected member, unless it has one, or the mailbox was not written yet. */
  watch(): void {
    const { member } = this.options.client;
    if (this.from === 0 || !member || (this.stream && this.member === member)) return;
    this.member = member;
    const stream = (this.stream = member.watch());
    stream.on('data', (reply: WatchReply) => this.onReply(stream, reply));
    stream.on('error', (error) => this.onEnd(stream, error));
    stream.on('end', () => this.onEnd(stream, new Error('etcd ended the watch')));
    const { keys, clientId } = this.options;
    const key = keys.mailbox(clientId);
    stream.write({ createRequest: { key, startRevision: this.from, progressNotify: true } });
  }

  close(): void {
    this.from = 0;
    this.cancelRetry();
    this.stop();
  }

  private onReply(stream: WatchStream, reply: WatchReply): void {
    if (this.stream !== stream) return;
    const { header, created, canceled, cancelReason, compactRevision, events } = reply;
    if (compactRevision > 0) {
      this.stop();
      this.from = compactRevision;
      this.options.onGap();
      return this.watch();
    }
    if (canceled) {
      stream.cancel();
      return this.onEnd(stream, new Error(cancelReason));
    }
    if (created) {
      if (!this.isFirst) this.options.onGap();
      this.isFirst = false;
      return;
    }
    for (const { type, kv } of events) {
      if (!kv) continue;
      this.from = kv.modRevision + 1;
      if (type === 'DELETE') this.options.onDeleted();
      else this.onMessages(kv);
    }
    // Only a reply without events (a progress notification) promises that all messages up to its revision have been sent.
    if (events.length === 0 && header) this.from = Math.max(this.from, header.revision + 1);
  }

  /** Passes the messages to the listener. An empty value has none: this client wrote it to create the mailbox. */
  private onMessages({ value, modRevision }: EtcdKeyValue): void {
    if (value.length === 0) return;
    for (const text of value.toString().split('\n')) this.options.onMessage(text, modRevision);
  }

  private onEnd(stream: WatchStream, error: unknown): void {
    const { client, clock } = this.options;
    const { member } = this;
    if (this.stream !== stream || !member) return;
    this.stream = undefined;
    client.onFailure(member, etcdFailure(error), error);
    // If the client changes the member, `onOpen` starts the watch again. If the member stays, this timer does.
    if (client.member === member) this.cancelRetry = clock.after(REWATCH_MS, () => this.watch());
  }

  private stop(): void {
    const { stream } = this;
    this.stream = undefined;
    stream?.cancel();
  }
}

type WatchStream = ReturnType<EtcdMember['watch']>;

interface MailboxOptions extends EtcdContext {
  readonly onMessage: (text: string, revision: number) => void;
  readonly onGap: () => void;
  readonly onDeleted: () => void;
}
