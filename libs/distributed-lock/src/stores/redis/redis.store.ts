import { Subject } from 'rxjs';
import { inBackground } from '../../async/in-background.js';
import { LockStoreError } from '../../port/lock.errors.js';
import type {
  AcquireReply,
  AcquireRequest,
  Repeated,
  ReleaseRequest,
  ReleaseReply,
  Grant,
  InTheWay,
  LockSnapshot,
  LockStore,
  LockStoreContext,
  LockStoreFactory,
  Notification,
  Renewal,
  RenewalReply,
} from '../../port/lock-store.js';
import { leadOf } from '../../time/clock.js';
import { SILENT_WAITER_MS } from '../../port/recheck-interval.js';
import { leaseMargin } from '../../port/lease-validity.js';
import { keepAlive } from './connection/keep-alive.js';
import { asRemaining } from './commands/acquire.js';
import { Acquires } from './commands/acquires.js';
import { checkOptionNames, type OptionNames } from '../../checks/option-names.js';
import { addressOf, ownClient, userOf } from './connection/redis.clients.js';
import { ScriptRunner } from './scripts/script-runner.js';
import { RedisConnection } from './connection/redis.connection.js';
import { Releases } from './commands/release.js';
import {
  checkReplicas,
  checkTimings,
  DEFAULT_COMMAND_TIMEOUT_MS,
  DEFAULT_REPLICA_TIMEOUT_MS,
  refuseOnCluster,
  type RedisStoreOptions,
  type RedisTarget,
} from './redis.options.js';
import { restartMark } from './redis.keys.js';
import { newClientId } from './redisson/owner-ids.js';
import { AccessRights } from './connection/access-rights.js';
import { RedisNotifications, type NotifiedGrant } from './redis.notifications.js';
import { Renewals } from './commands/renew.js';
import { checkKeyPrefix, checkTarget } from './connection/redis.target.js';
import { ScriptContext } from './scripts/script-context.js';
import { watchOutage } from './connection/watch-outage.js';
import { RestartGuard } from './safety/restart-guard.js';
import { ReplicaAcks } from './safety/replica-acks.js';
import { forceScript, inspectScript, type ReplyOf } from './scripts/scripts.js';

const OPTION_NAMES: OptionNames<RedisStoreOptions> = {
  commandTimeoutMs: true,
  minReplicaAcks: true,
  replicaTimeoutMs: true,
  restartGuardMs: true,
  sharedTokens: true,
};

/**
 * Locks in Redis: one hash per lock, exactly Redisson's, and a line behind it of our own.
 *
 * @param target a URL, ioredis options (Sentinel included), or an ioredis `Redis` or `Cluster`, which is duplicated and
 * stays yours
 * @throws LockConfigurationError for what ioredis would take for localhost, and for options that would do nothing
 */
export function redisStore(target: RedisTarget, options: RedisStoreOptions = {}): LockStoreFactory {
  checkTarget(target);
  checkOptionNames('redisStore', options, OPTION_NAMES);
  checkReplicas(options);
  const { commandTimeoutMs = DEFAULT_COMMAND_TIMEOUT_MS } = options;
  return {
    create(context) {
      checkTimings(options, context);
      checkKeyPrefix(target, context.keyPrefix);
      return new RedisStore(target, context, commandTimeoutMs, options);
    },
  };
}

class RedisStore implements LockStore {
  readonly name = 'redis';
  readonly address: string;
  readonly clientId = newClientId();
  readonly notifications$ = new Subject<Notification>();
  private readonly stopWatching: () => void;
  private readonly connection: RedisConnection;
  private readonly commands: ScriptRunner;
  private readonly asks: Acquires;
  private readonly ends: Releases;
  private readonly pushes: RedisNotifications;
  private readonly replicas: ReplicaAcks | undefined;
  /** Owners in line, who may be granted by a push: that may be lost with the master until their renewal is secure. */
  private readonly unseen = new Set<string>();
  private readonly session: ScriptContext;
  private readonly renewals: Renewals;
  private readonly stopKeepingAlive: () => void;

  constructor(
    target: RedisTarget,
    private readonly context: LockStoreContext,
    readonly commandTimeoutMs: number,
    {
      minReplicaAcks = 0,
      replicaTimeoutMs = DEFAULT_REPLICA_TIMEOUT_MS,
      restartGuardMs = 0,
      sharedTokens = false,
    }: RedisStoreOptions,
  ) {
    const { clock, keyPrefix } = context;
    const client = ownClient(target, commandTimeoutMs);
    this.address = addressOf(client);
    if (client.isCluster) refuseOnCluster({ minReplicaAcks, restartGuardMs });
    const rights = new AccessRights(
      { keyPrefix, isCluster: client.isCluster, user: userOf(client), waits: minReplicaAcks > 0 },
      (error) => context.onError?.('check of rights', error),
    );
    this.stopWatching = watchOutage(client, clock, commandTimeoutMs, (state) => context.onState?.(state));
    this.connection = new RedisConnection(client, clock, commandTimeoutMs, rights);
    this.commands = new ScriptRunner(this.connection, clock, {
      keyPrefix,
      isCluster: client.isCluster,
      sharedTokens,
    });
    this.session = new ScriptContext(this.connection, clock, client.isCluster);
    this.ends = new Releases(this.commands, this.session, clock);
    if (minReplicaAcks > 0) {
      this.replicas = new ReplicaAcks(this.connection, minReplicaAcks, replicaTimeoutMs);
    }
    this.renewals = new Renewals(this.commands, this.session);
    this.pushes = new RedisNotifications(
      ownClient(target, commandTimeoutMs),
      this.clientId,
      clock,
      commandTimeoutMs,
      {
        onGrant: (grant) => this.onGrant(grant),
        onNotification: (push) => this.notifications$.next(push),
        onNotSubscribed: (error) => rights.onDeaf(error),
      },
    );
    const { commands, connection, session, pushes, ends } = this;
    const guard =
      restartGuardMs > 0
        ? new RestartGuard(commands, connection, clock, restartMark(keyPrefix), restartGuardMs)
        : undefined;
    this.stopKeepingAlive = keepAlive(clock, () => {
      connection.checkIdle();
      pushes.probe();
    });
    const undo = (ask: AcquireRequest) => inBackground(this.release(ask), () => undefined);
    this.asks = new Acquires({ commands, session, pushes, ends, guard, undo });
  }

  acquire(ask: AcquireRequest): Promise<AcquireReply> {
    return this.replicas ? this.acquireSecurely(ask, this.replicas) : this.asks.acquire(ask);
  }

  async acquireAll(
    asks: readonly AcquireRequest[],
  ): Promise<readonly (Grant & Repeated)[] | InTheWay | null> {
    const reply = await this.asks.acquireAll(asks);
    if (this.replicas && Array.isArray(reply)) await this.secure(asks[0] as AcquireRequest, this.replicas);
    return reply;
  }

  renew(renewals: readonly Renewal[]): Promise<readonly RenewalReply[]> {
    return this.replicas ? this.renewSecurely(renewals) : this.renewals.run(renewals);
  }

  release(end: ReleaseRequest): Promise<ReleaseReply> {
    this.pushes.stopListening(end.owner);
    this.unseen.delete(end.owner);
    // By then its lease is over, and so is the place of a late copy that had entered the line.
    const giveUpAt =
      this.context.clock.now() + Math.max(end.leaseMs, SILENT_WAITER_MS) + this.commandTimeoutMs;
    return this.ends.run(end, giveUpAt);
  }

  async inspect(key: string): Promise<LockSnapshot | null> {
    return this.commands.run(inspectScript, {
      urgency: 'acquire',
      isRepeatable: true,
      key,
      kind: 'lock',
      args: () => [],
      read([mode, , remaining, token, count, ...owners]) {
        if (owners.length === 0) return null;
        return {
          key,
          mode: mode || undefined,
          holders: owners.slice(0, count),
          remainingMs: count === 0 ? 0 : asRemaining(remaining),
          pending: owners.slice(count),
          fencingToken: token === '' ? undefined : Number(token),
        };
      },
    });
  }

  async forceRelease(key: string): Promise<'released' | 'not held'> {
    const args = () => [this.session.minToken, this.session.cluster, this.session.publish];
    const read = (reply: ReplyOf<typeof forceScript>) => (reply[0] === 1 ? 'released' : 'not held');
    return this.commands.run(forceScript, { urgency: 'release', key, kind: 'lock', args, read });
  }

  async close(): Promise<void> {
    this.stopWatching();
    this.stopKeepingAlive();
    this.ends.close();
    await Promise.all([this.connection.close(), this.pushes.close()]);
    this.notifications$.complete();
  }

  private async renewSecurely(renewals: readonly Renewal[]): Promise<readonly RenewalReply[]> {
    const replies = await this.renewals.run(renewals);
    if (this.unseen.size === 0) return replies;
    return Promise.all(replies.map((reply, i) => this.secureConfirmed(renewals[i] as Renewal, reply)));
  }

  /** A pushed grant is known to the replicas when its first renewal is. */
  private async secureConfirmed(renewal: Renewal, reply: RenewalReply): Promise<RenewalReply> {
    if (reply.kind !== 'renewed' || !this.replicas || !this.unseen.has(renewal.owner)) return reply;
    try {
      await this.secure(renewal, this.replicas);
      return reply;
    } catch (error) {
      return { kind: 'unknown', error: error as LockStoreError };
    }
  }

  private async acquireSecurely(ask: AcquireRequest, replicas: ReplicaAcks): Promise<AcquireReply> {
    const reply = await this.asks.acquire(ask);
    if (reply.kind === 'granted') await this.secure(ask, replicas);
    else if (reply.kind === 'queued' && !this.ends.isReleasing(ask.owner)) this.unseen.add(ask.owner);
    return reply;
  }

  /** What too few replicas have is not granted: whoever asked ends it, or asks again. */
  private async secure(
    { key, owner }: { readonly key: string; readonly owner: string },
    replicas: ReplicaAcks,
  ): Promise<void> {
    await replicas.haveSeen(key);
    this.unseen.delete(owner);
  }

  /**
   * A push may have been long under way: its lease began when the server wrote it, not now. With little of it left, it
   * must be confirmed before anybody is let in. The same holds when the machine was suspended meanwhile.
   */
  private onGrant({ owner, token, lastToken, grantedAt, leaseMs, waiting }: NotifiedGrant): void {
    const { clock } = this.context;
    const { serverClock } = this.connection;
    const ahead = Math.max(0, leadOf(clock) - serverClock.sentLead);
    const now = clock.now();
    const startedAt = Math.min(now, serverClock.toLocal(grantedAt)) - ahead;
    const believed = startedAt + leaseMs - leaseMargin(leaseMs);
    const isEnough = believed - now >= leaseMs / 3 && !this.replicas;
    const validUntil = isEnough ? believed : -Infinity;
    this.session.onToken(lastToken);
    this.pushes.stopListening(owner);
    this.notifications$.next({
      kind: 'granted',
      owner,
      token,
      lastToken,
      waiting,
      validUntil,
      confirmed: false,
    });
  }
}
