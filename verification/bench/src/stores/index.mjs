import { etcd, etcd3 } from './etcd.mjs';
import { mariadb, mysql } from './mysql.mjs';
import { postgres } from './postgres.mjs';
import { redis } from './redis.mjs';
import { redisAcks, redisCluster } from './redis-servers.mjs';
import { sqlite } from './sqlite.mjs';
import { zookeeper, zookeeper3 } from './zookeeper.mjs';

/** @type {readonly import('./store.d.mts').BenchedStore[]} */
export const STORES = [
  [redis, postgres, mysql, mariadb, sqlite, etcd, zookeeper],
  [redisCluster, redisAcks, etcd3, zookeeper3],
].flat();
