export { findRedisServer } from './find-redis-server.mjs';
export { OTHER_REDIS_SERVERS, fetchRedisServer } from './other-redis-servers.mjs';
export { startRedisServer } from './start-redis-server.mjs';
