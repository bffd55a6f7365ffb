import type { Command } from '../command-line/command.js';
import { MOST_INSTANCES, WHY_NO_MORE } from '../demo/most-instances.js';
import { STORE } from '../stores/with-store.js';

export const START = {
  name: 'npm start',
  does: 'Serves the flash sale as a page, until Ctrl-C.',
  options: {
    instances: {
      says: 'processes that sell; 2 or more share one real store of locks and one database',
      byDefault: 1,
      most: MOST_INSTANCES,
      because: WHY_NO_MORE,
    },
    store: STORE,
  },
  notes: [
    `From the environment:
  PORT, HOST               where one instance listens (3000 on 127.0.0.1); several take free ports
  STORE                    as --store
  REDIS_URL, DATABASE_URL, MYSQL_URL, ETCD_URL, ZOOKEEPER_HOSTS
                           servers to use; without them the app brings its own. In a database that you name it
                           creates a schema, flash_sale, which stays there
  WATCHDOG_MS              how long a killed instance blocks what it was selling (30000)
  WAIT_MS                  longest time that a buyer waits for the lock (10000)
  LOCK                     "off" shows what happens without`,
  ],
} as const satisfies Command;
