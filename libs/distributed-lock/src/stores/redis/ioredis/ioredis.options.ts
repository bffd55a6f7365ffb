import type { Cluster, ClusterOptions, Redis, RedisOptions } from 'ioredis';
import type { Chance } from '../../../time/chance.js';
import { connectWithinMs, KEEP_ALIVE_MS, reconnectDelay } from '../../common/connection/keep-alive.js';
import type { ClientSettings } from '../redis.client.js';
import { isCluster, isRedis, type IoredisTarget } from './ioredis.target.js';
import { loadIoredis } from './load-ioredis.js';

/** A new, unconnected client for `target`, with settings of its own where locks depend on them. */
export function duplicateOf(target: IoredisTarget, settings: ClientSettings): Redis | Cluster {
  const { commandTimeoutMs, chance } = settings;
  const own = ownConnection(commandTimeoutMs, chance);
  const named = (given: RedisOptions | undefined): RedisOptions => {
    const connectionName = given?.connectionName ?? settings.connectionName;
    return connectionName === undefined ? {} : { connectionName };
  };
  if (typeof target === 'string') return new (loadIoredis().Redis)(target, { ...own, ...named(undefined) });
  if (isCluster(target)) {
    const { redisOptions } = target.options;
    const cluster = ownCluster(commandTimeoutMs, chance, { ...redisOptions, ...named(redisOptions) });
    // Sharded subscriptions are for Redisson's channels. ioredis connects to a node at the first subscription there.
    return target.duplicate([], { ...cluster, shardedSubscribers: true });
  }
  const given = isRedis(target) ? target.options : target;
  const settled = { ...sentinelTimeout(given, commandTimeoutMs), ...own, ...named(given) };
  return isRedis(target) ? target.duplicate(settled) : new (loadIoredis().Redis)({ ...target, ...settled });
}

/**
 * Settings that make a connection safe for locks. ioredis queues nothing while disconnected, and a single connection sends
 * nothing twice, so that no command is executed after its caller has given up (docs/decisions/0005).
 */
function ownConnection(commandTimeoutMs: number, chance: Chance): RedisOptions {
  return {
    lazyConnect: true,
    enableOfflineQueue: false,
    // Auto-pipelining delays commands until setImmediate. A caller that blocks the event loop would delay its renewal.
    enableAutoPipelining: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    maxRetriesPerRequest: null,
    stringNumbers: false,

    keepAlive: KEEP_ALIVE_MS,
    connectTimeout: connectWithinMs(commandTimeoutMs),
    commandTimeout: undefined,
    // The store destroys the stream itself. ioredis' own timer for it would outlive close().
    disconnectTimeout: 0,
    retryStrategy: (times) => reconnectDelay(chance, times),
    reconnectOnError: null,
    failoverDetector: true,
    keyPrefix: '',
  };
}

function ownCluster(
  commandTimeoutMs: number,
  chance: Chance,
  given: RedisOptions | undefined,
): ClusterOptions {
  const { lazyConnect: _lazy, retryStrategy: _retry, ...node } = ownConnection(commandTimeoutMs, chance);
  return {
    lazyConnect: true,
    enableOfflineQueue: false,
    enableAutoPipelining: false,
    clusterRetryStrategy: (times) => reconnectDelay(chance, times),
    keyPrefix: '',
    redisOptions: { ...given, ...node, socketTimeout: commandTimeoutMs },
  };
}

/**
 * The timeout for one Sentinel. Without it ioredis would wait for a reply for ever. A Sentinel takes up to four round trips: one
 * to connect, two for the handshake, and one to ask.
 */
function sentinelTimeout({ sentinelCommandTimeout }: RedisOptions, commandTimeoutMs: number): RedisOptions {
  return { sentinelCommandTimeout: sentinelCommandTimeout ?? 4 * commandTimeoutMs };
}
