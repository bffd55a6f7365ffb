import type { Cluster, Redis, RedisOptions } from 'ioredis';
import { checkCommandTimeout } from '../connection/checks.js';
import type { LockStoreContext } from '../port/lock-store.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import {
  checkOptions,
  describeMs,
  describeNumber,
  type OptionRules,
  overlay,
} from '../port/option-checks.js';
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

const OPTION_NAMES: OptionRules<RedisStoreOptions> = {
  commandTimeoutMs: true,
  minReplicaAcks: true,
  replicaTimeoutMs: true,
  restartGuardMs: true,
  sharedTokens: true,
};

/** The options with their defaults. */
export type ResolvedRedisOptions = Required<RedisStoreOptions>;

export const REDIS_DEFAULTS: ResolvedRedisOptions = {
  commandTimeoutMs: 500,
  minReplicaAcks: 0,
  replicaTimeoutMs: 100,
  restartGuardMs: 0,
  sharedTokens: false,
};

/** @throws LockConfigurationError for options that are wrong whatever the service */
export function resolveRedisOptions(given: RedisStoreOptions): ResolvedRedisOptions {
  checkOptions('redisStore', given, OPTION_NAMES);
  const options = overlay(REDIS_DEFAULTS, given) as ResolvedRedisOptions;
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
export function checkTimings(
  { commandTimeoutMs, restartGuardMs }: ResolvedRedisOptions,
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

/** @throws LockConfigurationError for the first option that a cluster does not have */
export function refuseOnCluster({ minReplicaAcks, restartGuardMs }: ResolvedRedisOptions): void {
  if (minReplicaAcks !== 0) throw new LockConfigurationError('minReplicaAcks is not for a cluster.');
  if (restartGuardMs !== 0) throw new LockConfigurationError('restartGuardMs is not for a cluster.');
}
