import type { Cluster, ClusterOptions, Redis, RedisOptions } from 'ioredis';
import type { Chance } from '../../../time/chance.js';
import { keepLive, readOptions } from '../../common/connection/live-options.js';
import { connectWithinMs, KEEP_ALIVE_MS, reconnectDelay } from '../../common/connection/keep-alive.js';
import type { ClientSettings } from '../redis.client.js';
import { isCluster, isRedis, type IoredisTarget } from './ioredis.target.js';
import { optionsOfUrl } from './ioredis.url.js';
import { loadIoredis } from './load-ioredis.js';

/** A new, unconnected client for `target`, with settings of its own where locks depend on them, and otherwise as the target is now. */
export function duplicateOf(target: IoredisTarget, settings: ClientSettings): Redis | Cluster {
  const { commandTimeoutMs, chance } = settings;
  const own = ownConnection(commandTimeoutMs, chance);
  const named = (given: RedisOptions | undefined): RedisOptions => {
    const connectionName = given?.connectionName ?? settings.connectionName;
    return connectionName === undefined ? {} : { connectionName };
  };
  if (typeof target === 'object' && isCluster(target)) {
    const { redisOptions } = target.options;
    const cluster = ownCluster(commandTimeoutMs, chance, { ...redisOptions, ...named(redisOptions) });
    // Sharded subscriptions are for Redisson's channels. ioredis connects to a node at the first subscription there.
    return target.duplicate([], { ...cluster, shardedSubscribers: true });
  }
  const given = givenOptions(target);
  const settled = {
    ...own,
    ...named(given),
    // Without a timeout ioredis would wait for a Sentinel for ever. One takes up to four round trips: one to connect, two for the
    // handshake, and one to ask.
    sentinelCommandTimeout: given.sentinelCommandTimeout ?? 4 * commandTimeoutMs,
  };
  const isClient = typeof target === 'object' && isRedis(target);
  return isClient ? target.duplicate(settled) : new (loadIoredis().Redis)({ ...given, ...settled });
}

/** The options of the target as they are now. */
function givenOptions(target: Exclude<IoredisTarget, Cluster>): RedisOptions {
  if (typeof target === 'string') return optionsOfUrl(target);
  return readOptions(isRedis(target) ? target.options : target) as RedisOptions;
}

/**
 * Makes connections that follow the target: each attempt to connect uses the user, the password and the other options that the
 * target has then.
 *
 * @param onError gets what a getter of the application throws
 * @returns what to do with the options of each connection: of the only one, or of a node of a cluster
 */
export function liveOptionsOf(
  target: IoredisTarget,
  onError: (error: unknown) => void,
): (options: object) => void {
  if (typeof target === 'string') return () => undefined;
  const read = (): object => {
    if (isCluster(target)) return target.options.redisOptions ?? {};
    return isRedis(target) ? target.options : target;
  };
  const first = readOptions(read());
  return (options) => keepLive(options, { read, first, except: OWN_NAMES, onError });
}

/** The options that the store sets itself. */
const OWN_NAMES = {
  ...ownConnection(0, { random: () => 0 } as Chance),
  sentinelCommandTimeout: true,
  connectionName: true,
  socketTimeout: true,
};

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
    replyMapping: 'legacy',

    keepAlive: KEEP_ALIVE_MS,
    connectTimeout: connectWithinMs(commandTimeoutMs),
    commandTimeout: undefined,
    // The store destroys the stream itself. ioredis' own timer for it would outlive close().
    disconnectTimeout: 0,
    retryStrategy: (times) => reconnectDelay(chance, times),
    reconnectOnError: null,
    failoverDetector: true,
    keyPrefix: '',
    // `RedisConnection` selects the database, because ioredis would go on in database 0 where that is refused.
    db: 0,
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
