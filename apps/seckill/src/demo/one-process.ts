import type { Config } from '../config.js';
import { createApp } from '../create-app.js';
import { Database } from '../database/database.js';
import type { Shop } from './shop.js';

/** The app in this process. It closes itself on SIGINT and SIGTERM, and then ends the process. */
export async function openOneProcess(config: Config): Promise<Shop> {
  const app = await createApp(config);
  const closing = new AbortController();
  const onSignal = (_: NodeJS.Signals, number: number) => {
    // Nest signals a second time when it has closed. An impatient user does so, too.
    if (closing.signal.aborted) process.exit(128 + number);
    closing.abort();
  };
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, onSignal);
  return {
    closing: closing.signal,
    urls: [await app.getUrl()],
    database: app.get(Database),
    killHolder: () => Promise.reject(new Error('There is only one process.')),
    close: () => app.close(),
  };
}
