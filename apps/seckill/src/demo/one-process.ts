import type { Config } from '../config.js';
import { createApp } from '../create-app.js';
import { Database } from '../database/database.js';
import type { Shop } from './shop.js';

/** The app in this very process. */
export async function openOneProcess(config: Config): Promise<Shop> {
  const app = await createApp(config);
  return {
    urls: [await app.getUrl()],
    database: app.get(Database),
    killHolder: () => Promise.reject(new Error('There is only one process.')),
    close: () => app.close(),
  };
}
