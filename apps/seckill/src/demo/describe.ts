import type { Config } from '../config.js';
import { describePlaces } from '../stores/describe-places.js';
import type { DemoOptions } from './options.js';

/** Describes the sale that is about to be played, and its servers. */
export function describe({ stock, buyers, instances, locked }: DemoOptions, config: Config): string {
  const { goods, locks } = describePlaces(config);
  const where = [
    instances > 1 ? `${instances} processes` : 'one process',
    `data in ${goods}`,
    locked ? `locks in ${locks}` : 'no locks',
  ];
  return `Flash sale: ${stock} items, ${buyers} buyers, ${locked ? 'with' : 'WITHOUT'} the lock (${where.join(', ')})`;
}
