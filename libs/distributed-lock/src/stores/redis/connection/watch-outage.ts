import { Outage, type OutageOptions } from '../../common/connection/outage.js';
import type { Client } from './redis.command.js';
import { describe, unreachable } from './redis.errors.js';

/**
 * Reports when there is no connection, from the start on, and when there is one again.
 *
 * @returns stops that
 */
export function watchOutage(client: Client, options: OutageOptions): () => void {
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
  client.on('error', (error: Error) => (lastError = error));
  client.on('ready', onUp);
  client.on('close', onDown);
  onDown();
  return () => {
    outage.stop();
    client.removeListener('ready', onUp);
    client.removeListener('close', onDown);
  };
}
