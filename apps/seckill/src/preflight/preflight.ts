import type { Config } from '../config.js';
import { checkDatabase } from './check-database.js';
import { checkPort } from './check-port.js';
import { checkRedis } from './check-redis.js';

/**
 * Checks every server that the app needs, before the app is started. The app itself would start without its
 * Redis, wait for it, and answer 503 meanwhile: right for a deploy, puzzling for a user who has mistyped an address.
 *
 * @throws Error within seconds, which names the attempt and the remedy
 */
export async function preflight({ host, port, redisUrl, databaseUrl }: Config): Promise<void> {
  await Promise.all([
    checkPort(host, port),
    redisUrl === undefined ? undefined : checkRedis(redisUrl),
    databaseUrl === undefined ? undefined : checkDatabase(databaseUrl),
  ]);
}
