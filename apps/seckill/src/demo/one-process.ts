import type { NestExpressApplication } from '@nestjs/platform-express';
import type { Config } from '../config.js';
import { Database } from '../database/database.js';
import { openServers } from './open-servers.js';
import type { Shop } from './shop.js';

/** The app in this process. It closes itself on SIGINT and SIGTERM, and then ends the process. */
export async function openOneProcess(given: Config): Promise<Shop> {
  const servers = await openServers(given, { shared: false, keep: false, onStep: console.log });
  const app = await startApp(servers.config).catch(async (error: unknown) => {
    await servers.close();
    throw error;
  });
  const closing = new AbortController();
  const onSignal = (_: NodeJS.Signals, number: number) => {
    // Nest signals a second time when it has closed. An impatient user does so, too.
    if (closing.signal.aborted) void servers.close().finally(() => process.exit(128 + number));
    closing.abort();
  };
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, onSignal);
  return {
    closing: closing.signal,
    urls: [await app.getUrl()],
    database: app.get(Database),
    killHolder: () => Promise.reject(new Error('There is only one process.')),
    async close() {
      await app.close();
      await servers.close();
    },
  };
}

/** The app is loaded when the servers are there: what they lack is said before. */
async function startApp(config: Config): Promise<NestExpressApplication> {
  const { createApp } = await import('../create-app.js');
  return createApp(config);
}
