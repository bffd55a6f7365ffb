import type { Config } from '../config.js';
import type { DemoOptions } from './options.js';

/** Describes the sale that is about to be played, and its servers. */
export function describe({ stock, buyers, instances, locked }: DemoOptions, config: Config): string {
  const many = instances > 1;
  const data = config.databaseUrl ? 'the Postgres of DATABASE_URL' : 'an embedded Postgres';
  const ownLocks = many ? 'a Redis of its own' : 'memory';
  const locks = config.redisUrl ? 'the Redis of REDIS_URL' : ownLocks;
  const where = [
    many ? `${instances} processes` : 'one process',
    `data in ${data}`,
    locked ? `locks in ${locks}` : 'no locks',
  ];
  return `Flash sale: ${stock} items, ${buyers} buyers, ${locked ? 'with' : 'WITHOUT'} the lock (${where.join(', ')})`;
}
