import type { Config } from '../config.js';
import { createApp } from '../create-app.js';
import { Database } from '../database/database.js';
import type { Shop } from './shop.js';

/** The app in this very process; it closes itself on SIGINT and SIGTERM, and then ends the process. */
export async function openOneProcess(config: Config): Promise<Shop> {
  const app = await createApp(config);
  const closing = new AbortController();
  const onSignal = () => {
    // Whoever asks twice does not want to wait for the buyers who are being served.
    if (closing.signal.aborted) process.exit(1);
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
