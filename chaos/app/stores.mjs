import { Cluster } from 'ioredis';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { neverLocks } from './never-locks.mjs';

/**
 * What `target` in the settings of an app means: a URL or options of ioredis, `{ cluster: nodes }`, or `never-locks`.
 *
 * @param {any} target @param {import('nestjs-distributed-lock/redis').RedisStoreOptions} options
 */
export function storeOf(target, options) {
  if (target === 'never-locks') return neverLocks();
  const { cluster } = target;
  return redisStore(cluster ? new Cluster(cluster, { lazyConnect: true }) : target, options);
}
