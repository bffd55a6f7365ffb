import { LockConfigurationError } from '../../../port/lock.errors.js';
import { givenOptions, type AddressMap, type Place } from './given-options.js';
import type { NodeRedisOptions, NodeRedisSentinel } from './node-redis.target.js';

/** The options of `createSentinel` that the store reads. */
export interface SentinelOptions {
  readonly name: string;
  readonly sentinelRootNodes: readonly Place[];
  readonly sentinelClientOptions?: NodeRedisOptions;
  readonly nodeClientOptions?: NodeRedisOptions;
  readonly keyPrefix?: string | Buffer;
  readonly nodeAddressMap?: AddressMap;
}

/**
 * @throws LockConfigurationError unless `duplicate` passes the options on. node-redis 5 has no `duplicate` for Sentinels, and a
 * later release may change it
 */
export function sentinelOptions(target: NodeRedisSentinel): SentinelOptions {
  const found = givenOptions(target) as SentinelOptions | undefined;
  if (found?.sentinelRootNodes && found.name !== undefined) return found;
  throw new LockConfigurationError(
    'redisStore cannot read the options of this client for Sentinels: it knows those of node-redis 6. Give the options of ioredis: { sentinels, name }.',
  );
}
