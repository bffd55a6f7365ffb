import { fileURLToPath } from 'node:url';
import { Cluster, Redis } from 'ioredis';

/** @param {string} name of a module @returns {Promise<any>} the module of a store */
const load = (name) => import(`nestjs-distributed-lock/${name}`);

const STORES = {
  'redis:': async (url) => (await load('redis')).redisStore(url),
  'redis-cluster:': async (url) => (await load('redis')).redisStore(connectRedis(url)),
  'redis-acks:': async (url) =>
    (await load('redis')).redisStore(url.replace('redis-acks:', 'redis:'), { minReplicaAcks: 1 }),
  'postgres:': async (url) => (await load('postgres')).postgresStore(url),
  'mysql:': async (url) => (await load('mysql')).mysqlStore(url),
  'http:': async (url) => (await load('etcd')).etcdStore(membersOf(url).map((host) => `http://${host}`)),
  'zookeeper:': async (url) => (await load('zookeeper')).zookeeperStore(membersOf(url).join(',')),
  'file:': async (url) => (await load('sqlite')).sqliteStore(fileURLToPath(url)),
};

/**
 * The library's store for a server.
 *
 * @param {string} url @returns {Promise<import('nestjs-distributed-lock').LockStore>}
 */
export const storeOf = (url) => STORES[new URL(url).protocol](url);

/** The first member, and what `withMembers` has added. @param {string} url @returns {string[]} `host:port` */
function membersOf(url) {
  const { host, searchParams } = new URL(url);
  return [host, ...searchParams.getAll('member')];
}

/** @param {string} url of the first member @param {readonly string[]} others `host:port` */
export const withMembers = (url, others) => [url, others.map((it) => `member=${it}`).join('&')].join('?');

/** @param {string} url `redis://…`, or `redis-cluster://…` of any node */
export function connectRedis(url) {
  const { protocol, hostname: host, port } = new URL(url);
  return protocol === 'redis-cluster:' ? new Cluster([{ host, port: Number(port) }]) : new Redis(url);
}
