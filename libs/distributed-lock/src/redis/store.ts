import { checkCommandTimeout } from '../connection/checks.js';
import type { LockStoreContext, LockStoreFactory } from '../port/lock-store.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import {
  checkOptions,
  describeMs,
  describeNumber,
  type OptionRules,
  overlay,
} from '../port/option-checks.js';
import { RedisLocks } from './locks.js';
import { REDIS_DEFAULTS, type RedisStoreOptions, type RedisTarget } from './options.js';
import { ReplicatedLocks } from './replicated-locks.js';
import { checkKeyPrefix, checkRedisTarget } from './target.js';

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
