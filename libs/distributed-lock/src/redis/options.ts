import type { Cluster, Redis, RedisOptions } from 'ioredis';
import type { NodeRedisClient, NodeRedisCluster, NodeRedisSentinel } from './node-redis/target.js';

/**
 * A URL, ioredis options (Sentinel included), or a client of ioredis or of node-redis, which stays yours: it is duplicated,
 * never used or closed.
 */
export type RedisTarget =
  | string
  | RedisOptions
  | Redis
  | Cluster
  | NodeRedisClient
  | NodeRedisSentinel
  | NodeRedisCluster;

/** Options of `redisStore`. Times are in ms. */
export interface RedisStoreOptions {
  /**
   * How long one command may take, in ms, before its connection is given up and replaced; default 500. Bounds how long a
   * failure can hide, and how late a call settles after its `waitMs`. At most a third of the watchdog's timeout.
   */
  readonly commandTimeoutMs?: number;
  /**
   * A lock counts as granted only when this many replicas have it, so that it survives a failover to one of them;
   * default 0. Costs one more round trip for each grant. With fewer in time the call goes on trying until its `waitMs` is
   * over, and then gives the lock back. Not on a cluster.
   */
  readonly minReplicaAcks?: number;
  /** How long `minReplicaAcks` may take, in ms; default 100. At most half of `commandTimeoutMs`. */
  readonly replicaTimeoutMs?: number;
  /**
   * A server that comes back without its data grants nothing for this many ms, until every lease that it has forgotten is
   * over. Give the longest lease of all services that use these locks, at least the watchdog's timeout; default 0,
   * off. The first start on an empty server waits, too. Not on a cluster.
   */
  readonly restartGuardMs?: number;
  /**
   * Counts fencing tokens together with Redisson's `getFencedLock` of the same name, so that a resource that both sides
   * write can check one order; default `false`. All services on these locks must say the same. For each name a key
   * `redisson_lock_token:…` stays in Redis without an end, as Redisson's does.
   */
  readonly sharedTokens?: boolean;
}

export const REDIS_DEFAULTS: Required<RedisStoreOptions> = {
  commandTimeoutMs: 500,
  minReplicaAcks: 0,
  replicaTimeoutMs: 100,
  restartGuardMs: 0,
  sharedTokens: false,
};
