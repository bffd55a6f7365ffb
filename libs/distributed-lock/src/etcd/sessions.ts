import { Delays } from '../common/clock.js';
import { inBackground } from '../common/promises.js';
import { LockConfigurationError, LockStoreError } from '../port/lock.errors.js';
import { leaseValidity } from '../port/timing.js';
import type { Session } from '../session/backend.js';
import type { EtcdContext } from './client.js';
import type { Compare, EtcdKeyValue, RequestOp, WatchReply } from './grpc.js';
import { etcdFailure, type EtcdMember, watchError, type WatchStream } from './member.js';

/** How many keep-alives the client sends in the length of a lease. */
export const KEEP_ALIVES = 6;
/** The pause after a failed keep-alive or a failed opening. */
const RETRY_MS = 100;
/** Ids of leases are numbers up to 2 ** 63. A number of JavaScript is exact up to this one. */
const LARGEST_ID = Number.MAX_SAFE_INTEGER;

/** Opens the session of this client, keeps it alive, and opens a new one when it is over. */
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
   * The session that is open, or a new one. @throws LockStoreError when none can be opened in time, LockConfigurationError when
   * etcd grants a shorter lease than the store needs
   */
  open(key?: string): Promise<EtcdSession> {
    if (this.current) return Promise.resolve(this.current);
    this.opening ??= this.openNew(key).finally(() => (this.opening = undefined));
    return this.opening.catch((error: unknown) => {
      throw this.forKey(error, key);
    });
  }

  /** Checks at once whether the session still exists, because one of its keys is missing. Writes the mailbox again if it does. */
  check(): void {
    const session = this.current;
    if (!session || this.isChecking) return;
    this.isChecking = true;
    const checked = this.keepAlive(session).then(async () => {
      if (this.current !== session) return;
      await this.writeMailbox(session);
      this.options.onRepaired();
    });
    inBackground(
      checked.finally(() => (this.isChecking = false)),
      () => undefined,
    );
  }

  /** Called when etcd does not have this session any more. Opens the next one. */
  end(session: EtcdSession): void {
    if (session.isOver) return;
    session.validUntil = -Infinity;
    if (this.current === session) this.current = undefined;
    // If somebody has deleted only the presence, etcd must delete the notes of the session, too.
    inBackground(this.quietly('LeaseRevoke', session), () => undefined);
    this.options.onEnd(session);
    if (!this.isClosed) inBackground(this.open(), () => undefined);
  }

  async close(keepSession: boolean): Promise<void> {
    this.isClosed = true;
    this.delays.endAll();
    const session = this.current;
    this.current = undefined;
    if (!session || !this.options.client.member) return;
    // If the session is to stay, the last keep-alive restarts its whole length.
    await this.quietly(keepSession ? 'LeaseKeepAlive' : 'LeaseRevoke', session);
  }

  private async openNew(key: string | undefined): Promise<EtcdSession> {
    const { clock, commandTimeoutMs } = this.options;
    const giveUpAt = clock.now() + commandTimeoutMs;
    for (;;) {
      try {
        return await this.openOnce(key);
      } catch (error) {
        // A lease that was granted without a reply ends by itself.
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
      inBackground(this.quietly('LeaseRevoke', session), () => undefined);
      throw client.errors.closed(key);
    }
    this.current = session;
    onOpen(revision);
    inBackground(this.keepAliveAlways(session), () => undefined);
    return session;
  }

  /** Writes the keys by which other clients find this one. @returns the revision */
  private async writeMailbox(session: EtcdSession, key?: string): Promise<number> {
    const { client, keys, clientId } = this.options;
    const lease = session.leaseId;
    const success: RequestOp[] = [
      { requestPut: { key: keys.mailbox(clientId), value: Buffer.alloc(0), lease } },
    ];
    const compare: Compare[] = [];
    if (session !== this.current) {
      const presence = keys.session(session.id);
      // etcd may execute a copy of this transaction late. That must not set the epoch back.
      compare.push({ key: presence, target: 'CREATE', result: 'EQUAL', createRevision: 0 });
      success.push({ requestPut: { key: presence, value: epochText(session.epoch), lease } });
    }
    const { header } = await client.call('Txn', { compare, success }, { key, mayRepeat: true });
    return header?.revision ?? 0;
  }

  private async keepAliveAlways(session: EtcdSession): Promise<void> {
    const { clock } = this.options;
    const everyMs = session.lengthMs / KEEP_ALIVES;
    let next = session.sentAt + everyMs;
    // The condition stands before each wait, too, because a client that closes during a keep-alive must not leave a timer.
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
   * Sends one keep-alive. A leader renews leases without asking its followers. One that was cut off from them goes on doing so for
   * up to two timeouts of an election, in which the others may elect another leader. So a keep-alive counts only after a
   * linearizable reading of the same term, which shows that the leader was still the leader.
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
    // The member lags behind, or the leader has let the lease expire and not revoked it yet.
    if (alive.TTL <= 0) throw new Error('a member does not have the lease, and etcd has its key');
    if (header?.raftTerm !== alive.header?.raftTerm) throw new Error('another leader was elected meanwhile');
    session.onAlive(sentAt);
  }

  /** Sends a request whose failure does no harm: a lease that is not revoked ends by itself. */
  private async quietly(name: 'LeaseKeepAlive' | 'LeaseRevoke', { leaseId: ID }: EtcdSession): Promise<void> {
    await this.options.client.call(name, { ID }, { mayRepeat: true }).catch(() => undefined);
  }

  /** Several requests wait for the session to open. If that fails, this makes the error of each, which names its own key. */
  private forKey(error: unknown, key: string | undefined): unknown {
    if (!(error instanceof LockStoreError) || (error.key === key && error.reason !== 'unknown')) return error;
    // A lease that was granted without a reply has no effect on the lock of the caller.
    const reason = error.reason === 'unknown' ? 'unready' : error.reason;
    return new LockStoreError(error.message, key, reason, { cause: error });
  }
}

interface SessionsOptions extends EtcdContext {
  /** @param revision the revision of the first write of the session */
  readonly onOpen: (revision: number) => void;
  /** The mailbox exists again. Messages could not arrive for a while. */
  readonly onRepaired: () => void;
  readonly onEnd: (session: EtcdSession) => void;
}

/** A lease of this client. */
export class EtcdSession implements Session {
  readonly id: string;
  validUntil: number;
  /** The client raises it after each write that was not answered, and etcd refuses writes of an earlier epoch. */
  epoch = 1;
  /** A write without an answer may still be executed, so the next transaction must raise the epoch. */
  needsFence = false;

  /** @param sentAt when the client asked for the lease, on our clock */
  constructor(
    readonly leaseId: number,
    readonly lengthMs: number,
    readonly sentAt: number,
  ) {
    this.id = leaseId.toString(16);
    this.validUntil = leaseValidity(sentAt, lengthMs);
  }

  /** A keep-alive that was sent at `sentAt` was answered. */
  onAlive(sentAt: number): void {
    if (!this.isOver) this.validUntil = Math.max(this.validUntil, leaseValidity(sentAt, this.lengthMs));
  }

  get isOver(): boolean {
    return this.validUntil === -Infinity;
  }
}

/** An epoch as a text. All have the same length, so that etcd, which compares texts, orders them as numbers. */
export function epochText(epoch: number): Buffer {
  return Buffer.from(epoch.toString(16).padStart(13, '0'));
}

const REWATCH_MS = 200;

/** Watches the mailbox of this client, from a revision on and without a gap where etcd still has what was written since. */
export class EtcdMailbox {
  private stream: WatchStream | undefined;
  private member: EtcdMember | undefined;
  /** The revision to watch from; 0 until the mailbox was written for the first time. */
  private from = 0;
  private isFirst = true;
  private cancelRetry = (): void => undefined;

  constructor(private readonly options: MailboxOptions) {}

  /** @param revision the revision of the write that made the mailbox */
  startAfter(revision: number): void {
    if (this.from === 0) this.from = revision + 1;
    this.goBackTo(revision);
    this.watch();
  }

  /** No message that was written up to this revision can still arrive. */
  get readUpTo(): number {
    return this.from - 1;
  }

  /** Called when etcd was restored from a snapshot, so that its revisions count from an earlier one again. */
  goBackTo(revision: number): void {
    if (this.from <= revision + 1) return;
    this.stop();
    this.from = revision + 1;
    this.options.onGap();
    this.watch();
  }

  /** Watches at the member that is open now, if the watch was begun before. */
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
      return this.onEnd(stream, watchError(cancelReason));
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
    // Only a reply without events says that all up to its revision was sent.
    if (events.length === 0 && header) this.from = Math.max(this.from, header.revision + 1);
  }

  /** Passes the messages on. An empty value has none: the client writes it when it makes the mailbox. */
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
    // The next member starts the watch again. If the member stays the same, a timer does.
    if (client.member === member) this.cancelRetry = clock.after(REWATCH_MS, () => this.watch());
  }

  private stop(): void {
    const { stream } = this;
    this.stream = undefined;
    stream?.cancel();
  }
}

interface MailboxOptions extends EtcdContext {
  readonly onMessage: (text: string, revision: number) => void;
  readonly onGap: () => void;
  readonly onDeleted: () => void;
}
