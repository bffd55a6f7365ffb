import type { Cluster, Redis, RedisOptions } from 'ioredis';

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
