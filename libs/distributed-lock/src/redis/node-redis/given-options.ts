import { createRequire } from 'node:module';
import { LockConfigurationError } from '../../port/lock.errors.js';
import type {
  NodeRedis,
  NodeRedisCluster,
  NodeRedisOptions,
  NodeRedisPattern,
  NodeRedisSentinel,
} from './target.js';

/** Where a server is. */
export interface Place {
  readonly host: string;
  readonly port: number;
}

/** The application's map from the addresses that Sentinels or a cluster announce to those to which clients connect. */
type AddressMap = Readonly<Record<string, Place>> | ((address: string) => Place | undefined);

/**
 * Reads the options of a client. node-redis has no method that returns them, but `duplicate` passes them to the constructor of the object
 * on which it is called. So this calls `duplicate` on an object whose constructor only keeps them.
 *
 * @returns `undefined` for a version of node-redis whose `duplicate` does not pass the options on
 */
function givenOptions(target: { duplicate(): unknown }): unknown {
  let found: unknown;
  class Keeper {
    constructor(options: unknown) {
      found = options;
    }
  }
  const prototype = Object.create(target, { constructor: { value: Keeper } }) as object;
  if (typeof target.duplicate === 'function') (Object.create(prototype) as typeof target).duplicate();
  return found;
}

export function addressOf({ host, port }: Place): string {
  return `${host}:${port}`;
}

/** The options of `createCluster` that the store reads. */
export interface ClusterOptions {
  readonly rootNodes: readonly NodeRedisOptions[];
  /** Options of the connections to all nodes. */
  readonly defaults?: NodeRedisOptions;
  readonly keyPrefix?: string | Buffer;
  readonly nodeAddressMap?: AddressMap;
}

/**
 * Reads the options of a cluster client. @throws LockConfigurationError if they lack `rootNodes`, or if `duplicate` of a later node-redis
 * does not pass them on
 */
export function clusterOptions(target: NodeRedisCluster): ClusterOptions {
  const found = givenOptions(target) as ClusterOptions | undefined;
  if (Array.isArray(found?.rootNodes) && found.rootNodes.length > 0) return found;
  throw new LockConfigurationError(
    'redisStore finds no rootNodes in the options of this client for a cluster: name one node or more, as createCluster({ rootNodes: [{ url }] }) of node-redis 5 or later does.',
  );
}

/**
 * Makes a pattern for the server that Sentinels or a cluster announce as `place`.
 *
 * @param read returns the options that the application's client has now
 */
export function patternAt(
  place: Place,
  read: () => Pick<ClusterOptions, 'defaults' | 'nodeAddressMap'>,
): NodeRedisPattern {
  const address = addressOf(place);
  return patternOf(() => {
    const { defaults, nodeAddressMap: map } = read();
    const { host, port } = (typeof map === 'function' ? map(address) : map?.[address]) ?? place;
    return { ...defaults, socket: { ...defaults?.socket, host, port } };
  });
}

/** Makes clients for the nodes that the application has named. */
export function rootPatterns(read: () => ClusterOptions): readonly NodeRedisPattern[] {
  return read().rootNodes.map((_, i) =>
    patternOf(() => {
      const { defaults, rootNodes } = read();
      const root = rootNodes[i];
      return { ...defaults, ...root, socket: { ...defaults?.socket, ...root?.socket } };
    }),
  );
}

/** The options of `createSentinel` that the store reads. */
interface SentinelOptions {
  readonly name: string;
  readonly sentinelRootNodes: readonly Place[];
  readonly sentinelClientOptions?: NodeRedisOptions;
  readonly nodeClientOptions?: NodeRedisOptions;
  readonly keyPrefix?: string | Buffer;
  readonly nodeAddressMap?: AddressMap;
}

/**
 * Reads the options of a client for Sentinels.
 *
 * @throws LockConfigurationError if `duplicate` does not pass them on. node-redis 5 has no `duplicate` for Sentinels, and a later release
 * may change it
 */
export function sentinelOptions(target: NodeRedisSentinel): SentinelOptions {
  const found = givenOptions(target) as SentinelOptions | undefined;
  if (found?.sentinelRootNodes && found.name !== undefined) return found;
  throw new LockConfigurationError(
    'redisStore cannot read the options of this client for Sentinels: it knows those of node-redis 6. Give the options of ioredis: { sentinels, name }.',
  );
}

/**
 * The client that every pattern duplicates. There is only one, because node-redis makes a new class for each client that is no duplicate.
 */
let blank: NodeRedis | undefined;

/**
 * Makes a pattern: an object by whose `duplicate` the store makes clients of one server, each with the options that `read` returns at
 * that moment. It duplicates a client from `createClient`, because a client for Sentinels or for a cluster cannot make a client of one
 * server.
 *
 * @throws LockConfigurationError if node-redis is not installed, or is part of a bundle
 */
function patternOf(read: () => NodeRedisOptions): NodeRedisPattern {
  const client = (blank ??= loadNodeRedis().createClient());
  return {
    get options() {
      return read();
    },
    duplicate: (own) => client.duplicate({ ...read(), ...own }),
  };
}

function loadNodeRedis(): { createClient(): NodeRedis } {
  try {
    return createRequire(import.meta.url)('redis') as { createClient(): NodeRedis };
  } catch (cause) {
    throw new LockConfigurationError(
      'redisStore connects to Sentinels and to clusters by node-redis, and the package redis is not to be found. Run npm install redis. In a bundle, where no package is found, leave redis outside of it, or give redisStore a client of ioredis.',
      { cause },
    );
  }
}
