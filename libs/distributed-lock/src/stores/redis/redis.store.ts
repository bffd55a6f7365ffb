import { randomUUID } from 'node:crypto';
import { Subject } from 'rxjs';
import { isAlone } from '../../lock/claim.js';
import { LockStoreError } from '../../lock/lock.errors.js';
import type {
  AcquireReply,
  Ask,
  End,
  EndReply,
  Grant,
  LockSnapshot,
  LockStore,
  LockStoreContext,
  LockStoreFactory,
  Push,
  Renewal,
  RenewalReply,
} from '../../lock/lock-store.js';
import { GONE_MS, LOOK_MS, lookAfter } from '../../lock/look.js';
import { leaseMargin, leaseValidity } from '../../lock/validity.js';
import { ownClient, userOf } from './redis.clients.js';
import { RedisCommands, type Arguments } from './redis.commands.js';
import { RedisConnection } from './redis.connection.js';
import { RedisEnds } from './redis.ends.js';
import { unknown } from './redis.errors.js';
import {
  checkReplicas,
  checkTimings,
  DEFAULT_COMMAND_TIMEOUT_MS,
  DEFAULT_REPLICA_TIMEOUT_MS,
  refuseOnCluster,
  type RedisStoreOptions,
  type RedisTarget,
} from './redis.options.js';
import { restartMark, shareSlot, strangersChannel } from './redis.keys.js';
import { isDenied, RedisRights } from './redis.rights.js';
import { RedisPushes, type PushedGrant } from './redis.pushes.js';
import { RedisRenewals } from './redis.renewals.js';
import { permitsOf, RedisSession, weightOf } from './redis.session.js';
import { RestartGuard } from './redis.restart-guard.js';
import { RedisReplicas } from './redis.replicas.js';
import { acquireAllScript, acquireScript, forceScript, inspectScript } from './redis.scripts.js';

/** How often a waiter looks while no grant can be pushed to it. */
const DEAF_LOOK_MS = 250;
/** The first lease of a pushed grant is at least this: a receiver that is dead blocks the line that long. */
const SHORT_LEASE_MS = 1000;

/**
 * Locks in Redis: one hash per lock, exactly Redisson's, and a line behind it of our own.
 *
 * @param target a URL, ioredis options (Sentinel included), or an ioredis `Redis` or `Cluster`, which is duplicated and
 * stays yours
 */
export function redisStore(target: RedisTarget, options: RedisStoreOptions = {}): LockStoreFactory {
  const { commandTimeoutMs = DEFAULT_COMMAND_TIMEOUT_MS } = options;
  checkReplicas(options);
  return {
    create(context) {
      checkTimings(options, context);
      return new RedisStore(target, context, commandTimeoutMs, options);
    },
  };
}

class RedisStore implements LockStore {
  readonly name = 'redis';
  readonly clientId = uuidVersion8();
  readonly pushes$ = new Subject<Push>();
  private readonly connection: RedisConnection;
  private readonly commands: RedisCommands;
  private readonly ends: RedisEnds;
  private readonly pushes: RedisPushes;
  private readonly replicas: RedisReplicas | undefined;
  private readonly guard: RestartGuard | undefined;
  /** Owners in line, who may be granted by a push: that may be lost with the master until their renewal is secure. */
  private readonly unseen = new Set<string>();
  private readonly session: RedisSession;
  private readonly renewals: RedisRenewals;

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
    if (client.isCluster) refuseOnCluster({ minReplicaAcks, restartGuardMs });
    const rights = new RedisRights(
      { keyPrefix, isCluster: client.isCluster, user: userOf(client), waits: minReplicaAcks > 0 },
      (error) => context.onError?.('check of rights', error),
    );
    this.connection = new RedisConnection(client, clock, commandTimeoutMs, rights);
    this.commands = new RedisCommands(this.connection, clock, {
      keyPrefix,
      isCluster: client.isCluster,
      sharedTokens,
    });
    this.session = new RedisSession(this.connection, clock, client.isCluster);
    this.ends = new RedisEnds(this.commands, clock);
    if (minReplicaAcks > 0) {
      this.replicas = new RedisReplicas(this.connection, minReplicaAcks, replicaTimeoutMs);
    }
    if (restartGuardMs > 0) {
      const mark = restartMark(keyPrefix);
      this.guard = new RestartGuard(this.commands, this.connection, clock, mark, restartGuardMs);
    }
    this.renewals = new RedisRenewals(this.commands, this.session);
    this.pushes = new RedisPushes(
      ownClient(target, commandTimeoutMs),
      this.clientId,
      clock,
      commandTimeoutMs,
      {
        onGrant: (grant) => this.onGrant(grant),
        onPush: (push) => this.pushes$.next(push),
        onDeaf: (error) => rights.onDeaf(error),
      },
    );
  }

  async acquire(ask: Ask): Promise<AcquireReply> {
    this.ends.onAsking(ask.owner);
    try {
      // Found too late: our idea of the server's time was old. The refusal has told it anew.
      const reply =
        (await this.acquireOnce(ask)) ?? (await this.acquireOnce(ask)) ?? this.alwaysLate(ask.key);
      if (this.replicas && reply.kind === 'granted') await this.secure(ask, this.replicas);
      return reply;
    } finally {
      this.ends.onAsked(ask.owner);
    }
  }

  async acquireAll(asks: readonly Ask[]): Promise<readonly Grant[] | null> {
    const names = asks.map(({ key }) => this.commands.lockName(key));
    if (!asks.every(({ claim }) => isAlone(claim)) || (this.session.isCluster && !shareSlot(names)))
      return null;
    const keys = asks.flatMap((ask) => this.commands.keysOf(ask.key, 'lock'));
    for (const { owner } of asks) this.ends.onAsking(owner);
    try {
      const once = await this.acquireAllOnce(asks, keys);
      const grants = once === undefined ? ((await this.acquireAllOnce(asks, keys)) ?? null) : once;
      if (this.replicas && grants) await this.secure(asks[0] as Ask, this.replicas);
      return grants;
    } finally {
      for (const { owner } of asks) this.ends.onAsked(owner);
    }
  }

  async renew(renewals: readonly Renewal[]): Promise<readonly RenewalReply[]> {
    const replies = await this.renewals.run(renewals);
    if (!this.replicas || this.unseen.size === 0) return replies;
    return Promise.all(replies.map((reply, i) => this.secureConfirmed(renewals[i] as Renewal, reply)));
  }

  end({ key, owner, claim, leaseMs, used, isWanted }: End): Promise<EndReply> {
    const { kind } = claim;
    this.pushes.stopListening(owner);
    this.unseen.delete(owner);
    const { floor, cluster, publish } = this.session;
    const reserved = used ? `${used.token} ${used.lastToken}` : '';
    const args = [owner, kind, publish, reserved, `${floor} ${cluster} ${weightOf(claim)}`];
    // By then its lease is over, and so is the place of a late copy that had entered the line.
    const giveUpAt = this.context.clock.now() + Math.max(leaseMs, GONE_MS) + this.commandTimeoutMs;
    return this.ends.run({ key, owner, kind, args, giveUpAt, isWanted });
  }

  async inspect(key: string): Promise<LockSnapshot | null> {
    const command = { urgency: 'ask', key, kind: 'lock', args: () => [] } as const;
    const { reply } = await this.commands.run(inspectScript, command);
    const [mode, , remaining, token, count, ...owners] = reply;
    if (owners.length === 0) return null;
    return {
      key,
      mode: mode || undefined,
      holders: owners.slice(0, count),
      remainingMs: count === 0 ? 0 : asRemaining(remaining),
      pending: owners.slice(count),
      fencingToken: token === '' ? undefined : Number(token),
    };
  }

  async forceRelease(key: string): Promise<'released' | 'not held'> {
    const args = () => [this.session.floor, this.session.cluster, this.session.publish];
    const { reply } = await this.commands.run(forceScript, { urgency: 'end', key, kind: 'lock', args });
    return reply[0] === 1 ? 'released' : 'not held';
  }

  async close(): Promise<void> {
    this.ends.close();
    await Promise.all([this.connection.close(), this.pushes.close()]);
    this.pushes$.complete();
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

  /** What too few replicas have is not granted: whoever asked ends it, or asks again. */
  private async secure(
    { key, owner }: { readonly key: string; readonly owner: string },
    replicas: RedisReplicas,
  ): Promise<void> {
    await replicas.haveSeen(key);
    this.unseen.delete(owner);
  }

  /** @returns `undefined` when the server found it too late */
  private async acquireOnce(ask: Ask): Promise<AcquireReply | undefined> {
    const { key, owner, claim, leaseMs } = ask;
    const { kind } = claim;
    let onAnswer = (): void => undefined;
    const args = (): Arguments => {
      const { waitMs } = ask;
      this.guard?.check(key);
      const notAfter = this.session.notAfter(waitMs > 0 ? waitMs : Infinity);
      onAnswer = this.ends.onAsk(owner, key, notAfter);
      return this.acquireArguments(ask, notAfter);
    };
    try {
      const { guard } = this;
      const run = () => this.commands.run(acquireScript, { urgency: 'ask', key, kind, args });
      const { reply, sentAt } = await (guard ? guard.pass(key, run) : run());
      onAnswer();
      switch (reply[0]) {
        case 0:
          return undefined;
        case 1: {
          const [, , token, lastToken = token, waiting = 0] = reply;
          this.pushes.stopListening(owner);
          this.session.onToken(lastToken);
          const validUntil = leaseValidity(sentAt, leaseMs);
          return { kind: 'granted', token, lastToken, validUntil, waiting, confirmed: true };
        }
        case 2:
          return this.queued(ask, reply);
        case 3:
          return { kind: 'busy', holder: reply[2] || undefined, remainingMs: asRemaining(reply[3]) };
      }
    } catch (error) {
      if (error instanceof LockStoreError && error.reason !== 'unknown') onAnswer();
      this.afterRefusal(error, [ask]);
      throw error;
    }
  }

  /** @returns `undefined` when the server found it too late */
  private async acquireAllOnce(
    asks: readonly Ask[],
    keys: readonly string[],
  ): Promise<readonly Grant[] | null | undefined> {
    const { key } = asks[0] as Ask;
    let onAnswers: (() => void)[] = [];
    const args = (): Arguments => {
      this.guard?.check(key);
      const notAfter = this.session.notAfter();
      onAnswers = asks.map((ask) => this.ends.onAsk(ask.owner, ask.key, notAfter));
      return [notAfter, this.session.floor, ...asks.flatMap(one)];
    };
    const one = ({ owner, leaseMs, tokens, claim }: Ask) => [owner, leaseMs, tokens, claim.kind];
    try {
      const command = { urgency: 'ask', key, kind: 'lock', args } as const;
      const { guard } = this;
      const run = () => this.commands.run(acquireAllScript, command, keys);
      const { reply, sentAt } = await (guard ? guard.pass(key, run) : run());
      for (const onAnswer of onAnswers) onAnswer();
      if (reply[0] === 0) return undefined;
      if (reply[0] === 2) return null;
      const [, , ...tokens] = reply;
      this.session.onToken(Math.max(...tokens));
      return asks.map(({ leaseMs }, i) => {
        const [token = 0, lastToken = 0] = tokens.slice(2 * i);
        const validUntil = leaseValidity(sentAt, leaseMs);
        return { kind: 'granted', token, lastToken, validUntil, waiting: 0, confirmed: true };
      });
    } catch (error) {
      if (error instanceof LockStoreError && error.reason !== 'unknown')
        for (const onAnswer of onAnswers) onAnswer();
      this.afterRefusal(error, asks);
      throw error;
    }
  }

  /** Redis undoes nothing of a script that was denied halfway: it may have written a place in the line, or a lock. */
  private afterRefusal(error: unknown, asks: readonly Ask[]): void {
    if (!(error instanceof Error) || !isDenied(error.cause)) return;
    for (const ask of asks) this.end(ask).catch(() => undefined);
  }

  private acquireArguments(ask: Ask, notAfter: number): Arguments {
    const { owner, claim, leaseMs, waitMs, place, tokens, reserveTo = 0 } = ask;
    const short = Math.min(
      leaseMs,
      Math.max(SHORT_LEASE_MS, 4 * Math.ceil(this.connection.serverClock.roundTripMs)),
    );
    const hears = this.pushes.isUp ? 1 : 0;
    const wait = Math.min(Math.ceil(waitMs), GONE_MS);
    const { floor, cluster, publish } = this.session;
    const line = `${wait} ${place} ${hears} ${cluster} ${publish} ${short}`;
    const more = `${line} ${weightOf(claim)} ${permitsOf(claim)} ${this.pushes.word} ${reserveTo}`;
    return [owner, claim.kind, tokens, leaseMs, notAfter, floor, more];
  }

  private queued(
    { key, owner, claim: { kind } }: Ask,
    [, , holder, remaining, place]: readonly [number, number, string, number, number],
  ): AcquireReply {
    const isBehindStranger = holder !== '' && !isOurs(holder);
    // If its caller has left meanwhile, nothing would ever undo what is noted for it now.
    if (this.ends.isEnding(owner) || !isBehindStranger) this.pushes.stopListening(owner);
    else this.pushes.listenBehindStranger(strangersChannel(this.commands.lockName(key), kind), owner);
    if (this.replicas && !this.ends.isEnding(owner)) this.unseen.add(owner);
    this.pushes.probe();
    const remainingMs = asRemaining(remaining);
    const lookAfterMs = lookAfter(remainingMs, this.pushes.isUp ? LOOK_MS : DEAF_LOOK_MS);
    return { kind: 'queued', place, holder: holder || undefined, remainingMs, lookAfterMs };
  }

  private alwaysLate(key: string): never {
    throw unknown('it found two requests in a row too late, by its own clock', key);
  }

  /**
   * A push may have been long under way: its lease began when the server wrote it, not now. With little of it left, it
   * must be confirmed before anybody is let in.
   */
  private onGrant({ owner, token, lastToken, grantedAt, leaseMs, waiting }: PushedGrant): void {
    const now = this.context.clock.now();
    const startedAt = Math.min(now, this.connection.serverClock.toLocal(grantedAt));
    const believed = startedAt + leaseMs - leaseMargin(leaseMs);
    const isEnough = believed - now >= leaseMs / 3 && !this.replicas;
    const validUntil = isEnough ? believed : -Infinity;
    this.session.onToken(lastToken);
    this.pushes.stopListening(owner);
    this.pushes$.next({ kind: 'granted', owner, token, lastToken, waiting, validUntil, confirmed: false });
  }
}

function asRemaining(pttl: number): number {
  return pttl < 0 ? Infinity : pttl;
}

/** Redisson's client ids are UUIDs of version 4: scripts tell ours from strangers' by the version. */
function uuidVersion8(): string {
  const uuid = randomUUID();
  return `${uuid.slice(0, 14)}8${uuid.slice(15)}`;
}

function isOurs(owner: string): boolean {
  return owner.length > 36 && owner[14] === '8';
}
