export { redisStore } from './redis.store.js';
export type { RedisStoreOptions, RedisTarget } from './redis.options.js';
