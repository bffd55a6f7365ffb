import { fileURLToPath } from 'node:url';

const STORES = {
  'redis:': async (url) => (await import('nestjs-distributed-lock/redis')).redisStore(url),
  'postgres:': async (url) => (await import('nestjs-distributed-lock/postgres')).postgresStore(url),
  'mysql:': async (url) => (await import('nestjs-distributed-lock/mysql')).mysqlStore(url),
  'http:': async (url) => (await import('nestjs-distributed-lock/etcd')).etcdStore(url),
  'zookeeper:': async (url) =>
    (await import('nestjs-distributed-lock/zookeeper')).zookeeperStore(new URL(url).host),
  'file:': async (url) => (await import('nestjs-distributed-lock/sqlite')).sqliteStore(fileURLToPath(url)),
};

/**
 * The library's store for a server.
 *
 * @param {string} url @returns {Promise<import('nestjs-distributed-lock').LockStore>}
 */
export const storeOf = (url) => STORES[new URL(url).protocol](url);
