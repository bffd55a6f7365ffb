import type { Cluster, ClusterOptions, Redis, RedisOptions } from 'ioredis';
import type { Chance } from '../../common/clock.js';
import { connectWithinMs, KEEP_ALIVE_MS, reconnectDelay } from '../../connection/timing.js';
import { keepLive, readOptions } from '../../connection/url-parameters.js';
import { LockConfigurationError } from '../../port/lock.errors.js';
import type { ClientSettings } from '../client.js';
import { loadIoredis, optionsOfUrl } from './url.js';

/** Makes a new, unconnected client for `target`. It has the options that the target has now, except for those on which locks depend. */
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
    // `RedisConnection` selects the database, because ioredis would go on in database 0 if the server refuses that.
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

/** A URL, ioredis options (Sentinel included), or a client of ioredis. */
export type IoredisTarget = string | RedisOptions | Redis | Cluster;

// Not by instanceof: the application may have another copy of ioredis than this package sees.
export function isCluster(target: object): target is Cluster {
  return 'isCluster' in target && target.isCluster === true;
}

export function isRedis(target: object): target is Redis {
  return 'isCluster' in target && 'duplicate' in target;
}

/** The prefix that a client of ioredis would put before each key. */
export function keyPrefixOf(target: IoredisTarget): string | undefined {
  if (typeof target === 'string') return undefined;
  if (isCluster(target)) return target.options.keyPrefix || target.options.redisOptions?.keyPrefix;
  return isRedis(target) ? target.options.keyPrefix : target.keyPrefix;
}

/**
 * Refuses nodes of a cluster that ask for TLS if the cluster's own options do not: ioredis takes only the address from the URL of a
 * node, and would connect in plain text.
 *
 * @throws LockConfigurationError
 */
export function checkNodesOfCluster(target: Cluster): void {
  const { startupNodes } = target as unknown as { readonly startupNodes?: readonly unknown[] };
  const asksForTls = (node: unknown): boolean =>
    typeof node === 'string' ? /^rediss:/i.test(node) : Boolean((node as { tls?: unknown } | null)?.tls);
  if (target.options.redisOptions?.tls || !startupNodes?.some(asksForTls)) return;
  throw new LockConfigurationError(
    'A node of the cluster that redisStore was given asks for TLS, which ioredis uses for all nodes only by redisOptions: { tls: {} }. Without it the connections would be in plain text.',
  );
}
