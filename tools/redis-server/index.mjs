export { findRedisServer } from './find-redis-server.mjs';
export { startRedisServer } from './start-redis-server.mjs';
