import type { ClusterOptions, RedisOptions } from 'ioredis';
import { KEEP_ALIVE_MS } from '../../common/keep-alive.js';

const SLOWEST_RECONNECT_MS = 1000;

/**
 * Settings that make a connection safe for locks. ioredis queues nothing while disconnected and sends nothing twice, so
 * that no command is executed after its caller has given up (docs/decisions/0005).
 */
export function ownConnection(commandTimeoutMs: number): RedisOptions {
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
    retryStrategy,
    // A demoted master answers READONLY: connect anew, to the present master.
    reconnectOnError: (error) => error.message.startsWith('READONLY'),
    failoverDetector: true,
    keyPrefix: '',
  };
}

export function ownCluster(commandTimeoutMs: number, given: RedisOptions | undefined): ClusterOptions {
  const { lazyConnect: _lazy, retryStrategy: _retry, ...node } = ownConnection(commandTimeoutMs);
  return {
    lazyConnect: true,
    enableOfflineQueue: false,
    enableAutoPipelining: false,
    clusterRetryStrategy: retryStrategy,
    keyPrefix: '',
    redisOptions: { ...given, ...node, socketTimeout: commandTimeoutMs },
  };
}

/** Full jitter, so that the instances of a service do not come back all at once. */
function retryStrategy(times: number): number {
  return 20 + Math.random() * Math.min(25 * 2 ** times, SLOWEST_RECONNECT_MS);
}
