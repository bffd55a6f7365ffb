import { checkCommandTimeout } from '../connection/checks.js';
import type {
  AcquireReply,
  AcquireRequest,
  AttachRequest,
  LockStoreContext,
  LockStoreFactory,
  ReleaseReply,
  ReleaseRequest,
  Renewal,
  RenewalReply,
} from '../port/lock-store.js';
import { LockConfigurationError, LockStoreError } from '../port/lock.errors.js';
import {
  checkOptions,
  describeMs,
  describeNumber,
  type OptionRules,
  overlay,
} from '../port/option-checks.js';
import { unknown } from './errors.js';
import { RedisLocks } from './locks.js';
import { REDIS_DEFAULTS, type RedisStoreOptions, type RedisTarget } from './options.js';
import { checkKeyPrefix, checkRedisTarget } from './target.js';

/** The reply to `WAIT`: how many replicas have executed all earlier writes of this connection. */
interface Count {
  readonly replicas: number;
  /** The generation of the connection on which the replicas were counted. */
  readonly generation: number;
}

/**
 * Locks on Redis whose grants count only when enough replicas have them: for `minReplicaAcks`.
 *
 * `WAIT` goes over the connection of the commands, because it counts the replicas that have the last write of its own connection.
 * If that connection was replaced, perhaps by one to another master, the new one knows nothing of the grant. Callers who come
 * together share one `WAIT`. A grant by notification counts as soon as its first renewal is on the replicas.
 */
class ReplicatedLocks extends RedisLocks {
  private readonly atLeast: number;
  private readonly withinMs: number;
  /**
   * Owners that may hold the lock although no count has shown that enough replicas have the grant. Includes owners whose acquire got no
   * reply.
   */
  private readonly withoutReplicaCheck = new Set<string>();
  private counting: Promise<unknown> = Promise.resolve();
  private next: Promise<Count> | undefined;

  constructor(target: RedisTarget, context: LockStoreContext, options: Required<RedisStoreOptions>) {
    super(target, context, options);
    this.atLeast = options.minReplicaAcks;
    this.withinMs = options.replicaTimeoutMs;
  }

  override acquire(request: AcquireRequest): Promise<AcquireReply> {
    return this.secured(request, () => super.acquire(request));
  }

  override attach(request: AttachRequest): Promise<AcquireReply> {
    return this.secured(request, () => super.attach(request));
  }

  private async secured(request: AcquireRequest, send: () => Promise<AcquireReply>): Promise<AcquireReply> {
    // Add the owner before the reply comes, because the reply may be lost and the grant may arrive as a notification instead.
    this.withoutReplicaCheck.add(request.owner);
    const reply = await send().catch((error: unknown) => {
      const isUnknown = error instanceof LockStoreError && error.reason === 'unknown';
      if (!isUnknown) this.onNotQueued(request);
      throw error;
    });
    if (reply.kind === 'granted') await this.secure(request);
    else if (reply.kind === 'busy' && !reply.mayComeLate) this.onNotQueued(request);
    return reply;
  }

  /**
   * Forgets the owner of an acquire that failed or was refused, unless the owner is in the queue: the core does not release an owner that
   * has never been queued, so `release` would not forget it.
   */
  private onNotQueued({ owner, ticket }: AcquireRequest): void {
    if (ticket === 0) this.withoutReplicaCheck.delete(owner);
  }

  override async renew(renewals: readonly Renewal[]): Promise<readonly RenewalReply[]> {
    const replies = await super.renew(renewals);
    const confirm = async (reply: RenewalReply, i: number): Promise<RenewalReply> => {
      const renewal = renewals[i] as Renewal;
      if (reply.kind !== 'renewed' || !this.withoutReplicaCheck.has(renewal.owner)) return reply;
      return this.secure(renewal).then(
        () => reply,
        (error: LockStoreError) => ({ kind: 'unknown', error }),
      );
    };
    return Promise.all(replies.map(confirm));
  }

  override async release(request: ReleaseRequest): Promise<ReleaseReply> {
    try {
      return await super.release(request);
    } finally {
      this.withoutReplicaCheck.delete(request.owner);
    }
  }

  /**
   * Counts the replicas right after the reply to the write that granted or renewed.
   *
   * @throws LockStoreError when too few replicas have the grant in time, or the count is unknown. The grant may then be lost with the
   * master, so the caller releases the lock or asks again
   */
  private async secure({ key, owner }: { readonly key: string; readonly owner: string }): Promise<void> {
    const { atLeast, withinMs } = this;
    const { generation } = this.connection;
    const count = await this.count().catch((error: Error) => {
      // `unknown` even if the count was never sent, because the grant exists and the caller must release it.
      throw unknown(`its replicas were not counted: ${error.message}`, key, error);
    });
    if (count.generation !== generation)
      throw unknown('the connection was lost before its replicas were counted', key);
    if (count.replicas < atLeast) {
      const message = `Could not acquire "${key}": ${count.replicas} of ${atLeast} replicas had it after ${withinMs} ms. Lower minReplicaAcks, or look after the replicas.`;
      throw new LockStoreError(message, key, 'unknown');
    }
    this.withoutReplicaCheck.delete(owner);
  }

  /** Counts the replicas. A `WAIT` in flight may have begun before the caller's write, so the caller gets the count of the next one. */
  private count(): Promise<Count> {
    this.next ??= this.counting.then(() => {
      this.next = undefined;
      const count = this.ask(async (client): Promise<Count> => {
        const { generation } = this.connection;
        const replicas = (await client.call('wait', [this.atLeast, this.withinMs])) as number;
        return { replicas, generation };
      });
      this.counting = count.catch(() => undefined);
      return count;
    });
    return this.next;
  }
}

/**
 * Locks in Redis, 6.2 or later: one hash per lock, in Redisson's exact format, and a queue of our own.
 *
 * @param target a URL, ioredis options (Sentinel included), a `Redis` or `Cluster` of ioredis, or a client that `createClient`,
 * `createSentinel` or `createCluster` of node-redis has made. A client is duplicated and stays yours; it need not be connected
 * @throws LockConfigurationError for a target that ioredis would read as localhost, for options that contradict each other, and
 * for a URL or options where ioredis is not installed, or Sentinels or a cluster of node-redis where `redis` is not
 * @example
 * ```ts
 * import { DistributedLockModule } from 'nestjs-distributed-lock';
 * import { redisStore } from 'nestjs-distributed-lock/redis';
 *
 * DistributedLockModule.forRoot({ store: redisStore('redis://localhost:6379') });
 * ```
 */
export function redisStore(target: RedisTarget, options: RedisStoreOptions = {}): LockStoreFactory {
  checkRedisTarget(target);
  const resolved = resolveRedisOptions(options);
  const Locks = resolved.minReplicaAcks > 0 ? ReplicatedLocks : RedisLocks;
  return {
    create(context) {
      checkTimings(resolved, context);
      checkKeyPrefix(target, context.keyPrefix);
      return new Locks(target, context, resolved);
    },
  };
}

const OPTION_NAMES: OptionRules<RedisStoreOptions> = {
  commandTimeoutMs: true,
  minReplicaAcks: true,
  replicaTimeoutMs: true,
  restartGuardMs: true,
  sharedTokens: true,
};

/** @throws LockConfigurationError for options that are wrong whatever the service */
function resolveRedisOptions(given: RedisStoreOptions): Required<RedisStoreOptions> {
  checkOptions('redisStore', given, OPTION_NAMES);
  const options = overlay(REDIS_DEFAULTS, given) as Required<RedisStoreOptions>;
  const { minReplicaAcks, replicaTimeoutMs, commandTimeoutMs } = options;
  if (!Number.isInteger(minReplicaAcks) || minReplicaAcks < 0) {
    throw new LockConfigurationError(
      `minReplicaAcks must be a whole number, 0 or more; it is ${describeNumber(minReplicaAcks)}.`,
    );
  }
  if (minReplicaAcks === 0) return options;
  if (!Number.isInteger(replicaTimeoutMs) || replicaTimeoutMs < 1) {
    throw new LockConfigurationError(
      `replicaTimeoutMs must be a whole number of ms, 1 or more; it is ${describeMs(replicaTimeoutMs)}.`,
    );
  }
  if (replicaTimeoutMs > commandTimeoutMs / 2) {
    throw new LockConfigurationError(
      `replicaTimeoutMs (${replicaTimeoutMs}) must be at most half of commandTimeoutMs (${commandTimeoutMs}): other commands wait behind it.`,
    );
  }
  return options;
}

/** @throws LockConfigurationError for options that contradict those of the service */
function checkTimings(
  { commandTimeoutMs, restartGuardMs }: Required<RedisStoreOptions>,
  context: LockStoreContext,
): void {
  const { watchdogTimeoutMs } = context;
  if (restartGuardMs !== 0 && !(Number.isInteger(restartGuardMs) && restartGuardMs >= watchdogTimeoutMs)) {
    throw new LockConfigurationError(
      `restartGuardMs must be 0, or a whole number of ms and at least watchdogTimeoutMs (${watchdogTimeoutMs}); it is ${describeMs(restartGuardMs)}.`,
    );
  }
  checkCommandTimeout(commandTimeoutMs, context);
}
