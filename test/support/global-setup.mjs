import { startRedisServer } from '#redis-server';

/** One server for all test files, whose keys must therefore be their own. Tests that disturb a server start another. */
export default async function globalSetup() {
  if (process.env.REDIS_URL) return;
  globalThis.redisServer = await startRedisServer();
  process.env.REDIS_URL = globalThis.redisServer.url;
}
