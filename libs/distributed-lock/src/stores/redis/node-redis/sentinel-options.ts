import { LockConfigurationError } from '../../../port/lock.errors.js';
import type { NodeRedisOptions, NodeRedisSentinel } from './node-redis.target.js';

/** What the store reads of the options of `createSentinel`. */
export interface SentinelOptions {
  readonly name: string;
  readonly sentinelRootNodes: readonly Place[];
  readonly sentinelClientOptions?: NodeRedisOptions;
  readonly nodeClientOptions?: NodeRedisOptions;
  readonly keyPrefix?: string | Buffer;
  /** Where clients find the server that the Sentinels name so. */
  readonly nodeAddressMap?: Readonly<Record<string, Place>> | ((address: string) => Place | undefined);
}

/** Where a server is. */
export interface Place {
  readonly host: string;
  readonly port: number;
}

/**
 * The options of a client for Sentinels, which no method of node-redis returns. `duplicate` passes them to the constructor of
 * the object that it is called on. So this calls `duplicate` on an object whose constructor only keeps them.
 *
 * @throws LockConfigurationError for node-redis 5, which has no `duplicate` of Sentinels, and for a later one that duplicates otherwise
 */
export function sentinelOptions(target: NodeRedisSentinel): SentinelOptions {
  let found: SentinelOptions | undefined;
  class Keeper {
    constructor(options: SentinelOptions) {
      found = options;
    }
  }
  const prototype = Object.create(target, { constructor: { value: Keeper } }) as object;
  if (typeof target.duplicate === 'function') (Object.create(prototype) as NodeRedisSentinel).duplicate();
  if (found?.sentinelRootNodes && found.name !== undefined) return found;
  throw new LockConfigurationError(
    'redisStore cannot read the options of this client for Sentinels: it knows those of node-redis 6. Give the options of ioredis: { sentinels, name }.',
  );
}

/** The options of a client for one server. */
export function optionsAt(given: NodeRedisOptions | undefined, { host, port }: Place): NodeRedisOptions {
  return { ...given, socket: { ...given?.socket, host, port } };
}
