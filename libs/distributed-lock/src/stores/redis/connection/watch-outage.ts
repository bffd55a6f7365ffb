import { Outage, type OutageOptions } from '../../common/connection/outage.js';
import type { RedisClient } from '../redis.client.js';
import { describe, unreachable } from './redis.errors.js';

/**
 * Reports when there is no connection, from the start on, and when there is one again.
 *
 * @returns stops that
 */
export function watchOutage(client: RedisClient, options: OutageOptions): () => void {
  let lastError: Error | undefined;
  const outage = new Outage(options, () => {
    const last = lastError ? ` (last error: ${describe(lastError)})` : '';
    const why = `no connection for ${options.commandTimeoutMs} ms${last}`;
    return unreachable(why, undefined, lastError);
  });
  const onDown = (): void => outage.onDown();
  const onUp = (): void => {
    lastError = undefined;
    outage.onUp();
  };
  client.on('error', (error) => (lastError = error));
  client.on('ready', onUp);
  client.on('close', onDown);
  onDown();
  return () => {
    outage.stop();
    client.removeListener('ready', onUp);
    client.removeListener('close', onDown);
  };
}
