import type { ServerName } from './servers.js';
import type { StoreName } from './store-name.js';

/** A place for the locks. The goods are in a Postgres whatever the store: with `postgres` they are in the same one. */
export interface StoreKind {
  /** The server that holds the locks. A store without one holds them within one process. */
  readonly server?: ServerName;
  /** A lock ends with the session of its holder. Only the server knows when it prolonged that session last. */
  readonly hasSessions?: true;
}

export const STORES: Readonly<Record<StoreName, StoreKind>> = {
  memory: {},
  redis: { server: 'redisUrl' },
  postgres: { server: 'databaseUrl' },
  mysql: { server: 'mysqlUrl' },
  etcd: { server: 'etcdUrl', hasSessions: true },
  zookeeper: { server: 'zookeeperHosts', hasSessions: true },
};

/** The servers that the app uses with a store: that of the locks and the Postgres of the goods, which may be one. */
export function serversOf(store: StoreName): readonly ServerName[] {
  return [...new Set([STORES[store].server ?? 'databaseUrl', 'databaseUrl'] as const)];
}
