// Locks on Redis: a hash that atomic Lua scripts change. Step by step: docs/architecture.md; the wire format: docs/redisson.md
import { Subject } from 'rxjs';
import { systemChance } from '../common/clock.js';
import { ignoreFailure, promiseOf } from '../common/promises.js';
import { ReliableRelease } from '../connection/reliable-release.js';
import { connectionName, keepAlive } from '../connection/timing.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type AttachRequest,
  CONFIRM_FIRST,
  type Force,
  type ForceReply,
  type HolderEntry,
  isPlaceholder,
  type KeyPage,
  type ListRequest,
  type LockSnapshot,
  type LockStore,
  type LockStoreContext,
  type Notification,
  type ReleaseReply,
  type ReleaseRequest,
  type Renewal,
  type RenewalReply,
  type TakeoverNotice,
} from '../port/lock-store.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import type { RedisClient } from './client.js';
import { RedisCommand } from './command.js';
import { AcquireCommand, type AcquireContext, AttachCommand } from './commands/acquire.js';
import { GuardedAcquireCommand, type RestartGuard } from './commands/guarded-acquire.js';
import { InspectCommand } from './commands/inspect.js';
import { listPage } from './commands/list.js';
import { ForceCommand, ReleaseCommand } from './commands/release.js';
import { Renewals } from './commands/renew.js';
import { RedisConnection } from './connection.js';
import { AccessRights, asStoreError, isDenied } from './errors.js';
import { isOurs, newClientId, notificationChannel, restartMark } from './keys.js';
import { RedisNotifications } from './notifications.js';
import type { RedisStoreOptions, RedisTarget } from './options.js';
import { loadScripts, ScriptContext } from './scripts/script-command.js';
import { newClient } from './target.js';

/** The store of one client, over two connections: one for commands and one for notifications. */
export class RedisLocks implements LockStore {
  readonly name = 'redis';
  readonly address: string;
  readonly clientId: string;
  readonly commandTimeoutMs: number;
  readonly notifications$ = new Subject<Notification>();
  protected readonly connection: RedisConnection;
  /** Whether a holder may believe in a grant by notification before a renewal has confirmed it. */
  private readonly trustsNotifiedGrants: boolean;
  private readonly scripts: ScriptContext;
  private readonly subscriber: RedisNotifications;
  private readonly acquireContext: AcquireContext;
  private readonly guard: RestartGuard | undefined;
  private readonly renewals: Renewals;
  private readonly releases: ReliableRelease;
  private readonly stopKeepingAlive: () => void;

  constructor(target: RedisTarget, context: LockStoreContext, options: Required<RedisStoreOptions>) {
    const { commandTimeoutMs, restartGuardMs, sharedTokens, minReplicaAcks } = options;
    const { clock, chance = systemChance, keyPrefix } = context;
    this.clientId = newClientId(chance);
    this.commandTimeoutMs = commandTimeoutMs;
    const name = context.client && connectionName(context.client);
    const settings = { clock, chance, commandTimeoutMs, connectionName: name };
    const client = newClient(target, settings);
    const { isCluster } = client;
    if (isCluster && minReplicaAcks !== 0)
      throw new LockConfigurationError('minReplicaAcks is not for a cluster.');
    if (isCluster && restartGuardMs !== 0)
      throw new LockConfigurationError('restartGuardMs is not for a cluster.');
    this.address = client.address;
    // True only if a confirming renewal leaves at once: if the client writes later, a caller that blocks the event loop would hold it up.
    // False with `minReplicaAcks`, because a grant then counts only after the replicas have that renewal.
    this.trustsNotifiedGrants = client.writesAtOnce && minReplicaAcks === 0;
    const rights = new AccessRights(
      { user: client.user, keyPrefix, isCluster, countsReplicas: minReplicaAcks > 0 },
      (error) => context.onError?.('subscription', error),
    );
    const { onState } = context;
    this.connection = new RedisConnection(client, { clock, commandTimeoutMs, onState }, loadScripts);
    this.scripts = new ScriptContext(this.connection, rights, { keyPrefix, isCluster, sharedTokens });
    this.subscriber = new RedisNotifications(
      newClient(target, settings),
      { ...settings, clientId: this.clientId },
      {
        validityOf: (grantedAt, leaseMs) => this.validityOf(grantedAt, leaseMs),
        onNotification: (notification) => this.onNotification(notification),
        onNotSubscribed: (error) => rights.onNotSubscribed(error),
      },
    );
    const { connection, scripts, subscriber } = this;
    this.renewals = new Renewals(scripts);
    this.releases = new ReliableRelease(scripts.requestsByOwner, settings);
    if (restartGuardMs > 0) this.guard = { mark: restartMark(keyPrefix), longestLeaseMs: restartGuardMs };
    const releaseInBackground = (request: AcquireRequest): void => ignoreFailure(this.release(request));
    this.acquireContext = { scripts, notifications: subscriber, releaseInBackground };
    this.stopKeepingAlive = keepAlive(clock, () => {
      connection.probe();
      subscriber.probe();
    });
  }

  acquire(request: AcquireRequest): Promise<AcquireReply> {
    const { acquireContext, guard } = this;
    return this.run(() =>
      guard
        ? new GuardedAcquireCommand(request, acquireContext, guard)
        : new AcquireCommand(request, acquireContext),
    );
  }

  attach(request: AttachRequest): Promise<AcquireReply> {
    return this.run(() => new AttachCommand(request, this.acquireContext));
  }

  renew(renewals: readonly Renewal[]): Promise<readonly RenewalReply[]> {
    return this.renewals.run(renewals);
  }

  release(request: ReleaseRequest): Promise<ReleaseReply> {
    this.subscriber.stopListeningToForeignClients(request.owner);
    this.scripts.onRelease(request.used);
    return this.releases.run(request, (ownerRequests, onReply, onError) =>
      this.connection.start(new ReleaseCommand(request, this.scripts, ownerRequests), onReply, onError),
    );
  }

  inspect(key: string): Promise<LockSnapshot | null> {
    return this.run(() => new InspectCommand(key, this.scripts));
  }

  forceRelease(key: string, force: Force = {}): Promise<ForceReply> {
    return this.run(() => new ForceCommand(key, force, this.scripts));
  }

  /** Publishes the takeover on the holder's channel. A foreign client has no such channel, so it cannot be notified. */
  async announceTakeover({ owner, graceMs, by }: TakeoverNotice): Promise<'announced' | 'nobody to tell'> {
    if (!isOurs(owner) || isPlaceholder(owner)) return 'nobody to tell';
    const channel = notificationChannel(owner.slice(0, owner.lastIndexOf(':')));
    const message = `takeover ${owner} ${graceMs} ${by}`;
    await this.ask((client) => client.call('publish', [channel, message]));
    return 'announced';
  }

  async publishHolderEntry({ clientId, text, leaseMs }: HolderEntry): Promise<void> {
    const key = holderEntryKey(this.scripts.keyPrefix, clientId);
    await this.ask((client) => client.call('set', [key, text, 'PX', leaseMs], key));
  }

  readHolderEntries(clientIds: readonly string[]): Promise<readonly (string | undefined)[]> {
    const keys = clientIds.map((id) => holderEntryKey(this.scripts.keyPrefix, id));
    return this.ask(async (client) => {
      const texts = await Promise.all(keys.map((key) => client.call('get', [key], key)));
      return texts.map((text) => (text ?? undefined) as string | undefined);
    });
  }

  list(request: ListRequest): Promise<KeyPage> {
    return listPage(request, this.scripts, {
      ask: (write) => this.ask(write),
      inspect: (key) => this.inspect(key),
    });
  }

  async close(): Promise<void> {
    this.stopKeepingAlive();
    this.releases.close();
    this.renewals.close();
    await Promise.all([this.connection.close(), this.subscriber.close()]);
    this.notifications$.complete();
  }

  protected ask<Reply>(write: (client: RedisClient) => Promise<Reply>): Promise<Reply> {
    return this.run(() => new PlainCommand(this.scripts.rights, write));
  }

  /** Makes the command and sends it. Rejects, and never throws, for a key that cannot be locked. */
  private run<Result>(makeCommand: () => RedisCommand<Result>): Promise<Result> {
    const { connection } = this;
    return promiseOf(() => {
      const asking = connection.settleDatabase();
      return asking ? asking.then(() => connection.run(makeCommand())) : connection.run(makeCommand());
    });
  }

  /**
   * Until when the holder may believe in a grant by notification. `ServerClock.validityOf` returns `CONFIRM_FIRST` as well if less than a third
   * of the lease is left.
   */
  private validityOf(grantedAt: number, leaseMs: number): number {
    return this.trustsNotifiedGrants
      ? this.connection.serverClock.validityOf(grantedAt, leaseMs)
      : CONFIRM_FIRST;
  }

  private onNotification(notification: Notification): void {
    if (notification.kind === 'granted') this.scripts.onGranted(notification.token, notification.lastToken);
    this.notifications$.next(notification);
  }
}

/** The key of the holder entry of one client. It belongs to no lock. */
function holderEntryKey(keyPrefix: string, clientId: string): string {
  return `nest_lock_client:${keyPrefix}${clientId}`;
}

/** A command that runs no script and concerns no single lock. May be executed twice. */
class PlainCommand<Reply> extends RedisCommand<Reply> {
  readonly key = undefined;
  readonly priority = 'acquire';
  override readonly isRepeatable = true;

  constructor(
    private readonly rights: AccessRights,
    private readonly write: (client: RedisClient) => Promise<Reply>,
  ) {
    super();
  }

  send(client: RedisClient): Promise<Reply> {
    return this.write(client);
  }

  read(value: unknown): Reply {
    return value as Reply;
  }

  override recover(_client: RedisClient, error: unknown): Promise<never> {
    const refusal = isDenied(error) ? this.rights.refusal(error, undefined) : asStoreError(error, undefined);
    return Promise.reject(refusal);
  }
}
