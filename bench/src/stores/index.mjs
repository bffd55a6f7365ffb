import { mariadb, mysql } from './mysql.mjs';
import { postgres } from './postgres.mjs';
import { redis } from './redis.mjs';
import { sqlite } from './sqlite.mjs';

/** @type {readonly import('./store.d.mts').BenchedStore[]} */
export const STORES = [redis, postgres, mysql, mariadb, sqlite];
