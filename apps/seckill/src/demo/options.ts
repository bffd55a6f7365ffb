import type { Command, Values } from '../command-line/command.js';
import { wrongUsage } from '../command-line/wrong-usage.js';
import { STORE } from '../stores/with-store.js';
import { MOST_INSTANCES, WHY_NO_MORE } from './most-instances.js';

export interface DemoOptions {
  readonly stock: number;
  readonly buyers: number;
  /** How many processes serve the sale. */
  readonly instances: number;
  readonly locked: boolean;
  /** Kill the process that holds the lock, in mid-sale. */
  readonly kill: boolean;
}

export const DEMO = {
  name: 'npm run demo',
  does: 'Plays a flash sale: many buyers, few items. The database then proves that none was sold twice.',
  options: {
    'no-lock': { says: 'the same sale without the lock: see how it oversells' },
    instances: {
      says: 'processes that sell; 2 or more share one real store of locks and one database',
      byDefault: 1,
      most: MOST_INSTANCES,
      because: WHY_NO_MORE,
    },
    store: STORE,
    kill: { says: 'kill -9 the process that holds the lock, in mid-sale (with --instances)' },
    stock: { says: 'items to sell', byDefault: 100, most: 999_999 },
    buyers: { says: 'who want one each', byDefault: 1000, most: 999_999 },
  },
  notes: [
    `REDIS_URL, DATABASE_URL, MYSQL_URL, ETCD_URL and ZOOKEEPER_HOSTS name servers to use; without them the demo brings its
own. In a database that you name it creates a schema, flash_sale_<random>, and drops it at the end.`,
  ],
} as const satisfies Command;

/** @throws Error with the usage when two options contradict each other */
export function demoOptions(values: Values<typeof DEMO.options>): DemoOptions {
  const { 'no-lock': unlocked, instances, kill, stock, buyers } = values;
  if (kill && instances < 2) {
    throw wrongUsage(DEMO, '--kill needs --instances 2 or more: others must go on with the sale.');
  }
  if (kill && unlocked) {
    throw wrongUsage(DEMO, '--kill kills the process that holds the lock: with --no-lock there is none.');
  }
  return { stock, buyers, instances, locked: !unlocked, kill };
}
