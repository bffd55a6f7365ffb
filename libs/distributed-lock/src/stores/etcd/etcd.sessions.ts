import { inBackground } from '../../async-context/in-background.js';
import { LockConfigurationError, LockStoreError } from '../../port/lock.errors.js';
import { Delays } from '../../time/delays.js';
import type { EtcdContext } from './etcd.client.js';
import type { Compare, RequestOp } from './etcd.messages.js';
import { EtcdSession, epochText } from './etcd.session.js';

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

  /** @throws LockStoreError when none can be opened in time, LockConfigurationError when etcd grants a shorter one */
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

  /** etcd has no such session any more. */
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
    // The last keep-alive starts the whole length of a session that stays.
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
      // A copy that is executed late must not set the epoch back.
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
   * A leader renews leases without asking its followers. One that was cut off from them goes on doing so for up to two
   * timeouts of an election, in which the others may elect another. So a keep-alive counts once a linearizable reading of the
   * same term has shown that the leader was still the leader afterwards.
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

  /** A lease that is not revoked ends by itself. */
  private async quietly(name: 'LeaseKeepAlive' | 'LeaseRevoke', { leaseId: ID }: EtcdSession): Promise<void> {
    await this.options.client.call(name, { ID }, { mayRepeat: true }).catch(() => undefined);
  }

  /** Several requests wait for the session to open. If that fails, the error of each names its own key. */
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
  /** Messages could not arrive for a while. */
  readonly onRepaired: () => void;
  readonly onEnd: (session: EtcdSession) => void;
}
