import type { Config } from '../config.js';
import { checkDatabase } from './check-database.js';
import { checkPort } from './check-port.js';
import { checkRedis } from './check-redis.js';

/**
 * Asks all that the app needs whether it is there, before anything is started. The app itself would start without its
 * Redis, wait for it, and answer 503 meanwhile: right for a deploy, puzzling for whoever has mistyped an address.
 *
 * @throws Error that says what was tried and what to do, within seconds
 */
export async function preflight({ host, port, redisUrl, databaseUrl }: Config): Promise<void> {
  await Promise.all([
    checkPort(host, port),
    redisUrl === undefined ? undefined : checkRedis(redisUrl),
    databaseUrl === undefined ? undefined : checkDatabase(databaseUrl),
  ]);
}
