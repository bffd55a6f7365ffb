import type { Config } from '../config.js';
import { aNamed, SERVERS, type ServerName } from './servers.js';
import { STORES } from './stores.js';

/** In plain words. */
export interface Places {
  readonly goods: string;
  readonly locks: string;
}

/** @param config as the environment and the command line give it, before missing servers are started */
export function describePlaces(config: Config): Places {
  const { server } = STORES[config.store];
  const locks = server === undefined ? 'memory' : describeServer(server, config);
  if (server === 'databaseUrl') return { goods: locks, locks: 'the same Postgres' };
  const isNamed = config.databaseUrl !== undefined;
  return { goods: isNamed ? describeServer('databaseUrl', config) : 'an embedded Postgres', locks };
}

function describeServer(name: ServerName, config: Config): string {
  const { product, ownProduct, variable } = SERVERS[name];
  return config[name] === undefined ? `${aNamed(ownProduct)} of its own` : `the ${product} of ${variable}`;
}

/** For a page that anybody may read: without the names of servers. */
export function describeProducts(config: Config): string {
  const { server } = STORES[config.store];
  if (server === 'databaseUrl') return 'Locks and goods are in one Postgres.';
  const locks = server === undefined ? 'the memory of this instance' : SERVERS[server].product;
  return `Locks are in ${locks}, goods in ${config.databaseUrl === undefined ? 'an embedded Postgres' : 'Postgres'}.`;
}
