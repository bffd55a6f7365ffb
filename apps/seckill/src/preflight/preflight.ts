import type { Config } from '../config.js';
import { checkPort } from './check-port.js';
import { checkServers } from './check-servers.js';

/**
 * Checks the port and every server that the app needs, before the app is started. The app itself would start without the
 * server of its locks, wait for it, and answer 503 meanwhile: right for a deploy, puzzling for a user who has mistyped an
 * address.
 *
 * @throws Error within seconds, which names the attempt and the remedy
 */
export async function preflight(config: Config): Promise<void> {
  await Promise.all([checkPort(config.host, config.port), checkServers(config)]);
}
