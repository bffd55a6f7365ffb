import type { Config } from '../config.js';
import { openServers } from '../demo/open-servers.js';
import { describePlaces } from '../stores/describe-places.js';
import { listen } from './listen.js';

/** Serves the app from this process. On SIGINT and SIGTERM the process ends, and with it the servers that it started. */
export async function serveOne(config: Config): Promise<void> {
  const servers = await openServers(config, { shared: false, keep: true, onStep: console.log });
  try {
    await listen(servers.config, describePlaces(config));
  } catch (error) {
    await servers.close();
    throw error;
  }
}
