import { memoryStore, type LockStoreFactory } from 'nestjs-distributed-lock';
import { etcdStore } from 'nestjs-distributed-lock/etcd';
import { mysqlStore } from 'nestjs-distributed-lock/mysql';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { zookeeperStore } from 'nestjs-distributed-lock/zookeeper';
import { SERVERS, type ServerName, type ServerUrls } from './servers.js';
import type { StoreName } from './store-name.js';

/** A place for the locks. The goods are in a Postgres whatever the store: with `postgres` they are in the same one. */
export interface StoreKind {
  /** The server that holds the locks. A store without one holds them within one process. */
  readonly server?: ServerName;
  /** A lock ends with the session of its holder. Only the server knows when it prolonged that session last. */
  readonly hasSessions?: true;
  readonly create: (url: string) => LockStoreFactory;
}

export const STORES: Readonly<Record<StoreName, StoreKind>> = {
  memory: { create: () => memoryStore() },
  redis: { server: 'redisUrl', create: (url) => redisStore(url) },
  postgres: { server: 'databaseUrl', create: (url) => postgresStore(url) },
  mysql: { server: 'mysqlUrl', create: (url) => mysqlStore(url) },
  etcd: { server: 'etcdUrl', hasSessions: true, create: (url) => etcdStore(url) },
  zookeeper: { server: 'zookeeperHosts', hasSessions: true, create: (hosts) => zookeeperStore(hosts) },
};

/** The servers that the app uses with a store: that of the locks and the Postgres of the goods, which may be one. */
export function serversOf(store: StoreName): readonly ServerName[] {
  return [...new Set([STORES[store].server ?? 'databaseUrl', 'databaseUrl'] as const)];
}

/** @throws Error when the environment names no server for the store */
export function lockStoreOf(config: ServerUrls & { readonly store: StoreName }): LockStoreFactory {
  const { server, create } = STORES[config.store];
  if (server === undefined) return create('');
  const { variable, product, example } = SERVERS[server];
  const url = config[server];
  if (url === undefined) {
    throw new Error(
      `STORE is ${config.store}, but ${variable} names no ${product}. Set it, such as to ${example}.`,
    );
  }
  return create(url);
}
