import type { LockStoreFactory } from '../../port/lock-store.js';
import { RedisLocks } from './redis.locks.js';
import {
  checkTimings,
  resolveRedisOptions,
  type RedisStoreOptions,
  type RedisTarget,
} from './redis.options.js';
import { checkKeyPrefix, checkRedisTarget } from './redis.target.js';
import { ReplicatedLocks } from './safety/replicated-locks.js';

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
