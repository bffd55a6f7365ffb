export { redisStore } from './store.js';
export type { RedisStoreOptions, RedisTarget } from './options.js';
export type { NodeRedisClient, NodeRedisCluster, NodeRedisSentinel } from './node-redis/target.js';
