import type { ClusterOptions, RedisOptions } from 'ioredis';
import type { Chance } from '../../../time/chance.js';
import { KEEP_ALIVE_MS } from '../../common/connection/keep-alive.js';
import { reconnectDelay } from '../../common/connection/reconnect-delay.js';

/**
 * Settings that make a connection safe for locks. ioredis queues nothing while disconnected and sends nothing twice, so
 * that no command is executed after its caller has given up (docs/decisions/0005).
 */
export function ownConnection(commandTimeoutMs: number, chance: Chance): RedisOptions {
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
    connectTimeout: Math.max(commandTimeoutMs, 100) * 2,
    commandTimeout: undefined,
    // A stream is destroyed at once where it matters; ioredis' own timer for it would outlive close().
    disconnectTimeout: 0,
    retryStrategy: (times) => reconnectDelay(chance, times),
    // A demoted master answers READONLY: connect anew, to the present master.
    reconnectOnError: (error) => error.message.startsWith('READONLY'),
    failoverDetector: true,
    keyPrefix: '',
  };
}

export function ownCluster(
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
 * For one Sentinel, whose replies ioredis awaits without an end otherwise. It takes up to four round trips: to connect, for
 * the handshake twice, and to ask.
 */
export function sentinelTimeout(
  { sentinelCommandTimeout }: RedisOptions,
  commandTimeoutMs: number,
): RedisOptions {
  return { sentinelCommandTimeout: sentinelCommandTimeout ?? 4 * commandTimeoutMs };
}
