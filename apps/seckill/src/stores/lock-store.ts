import { memoryStore, type LockStoreFactory } from 'nestjs-distributed-lock';
import { etcdStore } from 'nestjs-distributed-lock/etcd';
import { mysqlStore } from 'nestjs-distributed-lock/mysql';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { zookeeperStore } from 'nestjs-distributed-lock/zookeeper';
import { SERVERS, type ServerUrls } from './servers.js';
import type { StoreName } from './store-name.js';
import { STORES } from './stores.js';

interface Limits {
  /** In ms; by default that of the store. */
  readonly commandTimeoutMs?: number;
}

const CREATE: Readonly<Record<StoreName, (url: string, limits: Limits) => LockStoreFactory>> = {
  memory: () => memoryStore(),
  redis: redisStore,
  postgres: postgresStore,
  mysql: mysqlStore,
  etcd: etcdStore,
  zookeeper: zookeeperStore,
};

/** @throws Error when the environment names no server for the store */
export function lockStoreOf(
  config: ServerUrls & { readonly store: StoreName },
  limits: Limits = {},
): LockStoreFactory {
  const { server } = STORES[config.store];
  const create = CREATE[config.store];
  if (server === undefined) return create('', limits);
  const { variable, product, example } = SERVERS[server];
  const url = config[server];
  if (url === undefined) {
    throw new Error(
      `STORE is ${config.store}, but ${variable} names no ${product}. Set it, such as to ${example}.`,
    );
  }
  return create(url, limits);
}
