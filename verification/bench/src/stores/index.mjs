import { etcd } from './etcd.mjs';
import { mariadb, mysql } from './mysql.mjs';
import { postgres } from './postgres.mjs';
import { redis } from './redis.mjs';
import { sqlite } from './sqlite.mjs';
import { zookeeper } from './zookeeper.mjs';

/** @type {readonly import('./store.d.mts').BenchedStore[]} */
export const STORES = [redis, postgres, mysql, mariadb, sqlite, etcd, zookeeper];
