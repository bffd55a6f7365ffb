import { readConfig } from '../config.js';
import { createApp } from '../create-app.js';
import { Database } from '../database/database.js';
import type { Shop } from './shop.js';

/** The app in this very process: embedded Postgres, locks in memory. */
export async function openOneProcess(locked: boolean): Promise<Shop> {
  const app = await createApp(readConfig({ PORT: '0', LOCK: locked ? 'on' : 'off' }));
  return {
    urls: [await app.getUrl()],
    database: app.get(Database),
    killOne: () => Promise.reject(new Error('There is only one process.')),
    close: () => app.close(),
  };
}
