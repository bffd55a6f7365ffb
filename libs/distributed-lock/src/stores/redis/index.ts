export { redisStore } from './redis.store.js';
export type { RedisStoreOptions, RedisTarget } from './redis.options.js';
export type { NodeRedisClient, NodeRedisCluster, NodeRedisSentinel } from './node-redis/node-redis.target.js';
