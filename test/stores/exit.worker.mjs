// One process that holds a lock, lets go of it in one of the ways that a page names, and exits in the same turn.
import { etcdStore } from 'nestjs-distributed-lock/etcd';
import { mysqlStore } from 'nestjs-distributed-lock/mysql';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { zookeeperStore } from 'nestjs-distributed-lock/zookeeper';
import { createClient } from 'redis';
import { LockService } from '../../libs/distributed-lock/dist/shared/core.names.cjs';

const [store, url, key, way] = process.argv.slice(2);
const STORES = {
  ioredis: () => redisStore(url),
  'node-redis': () => redisStore(createClient({ url })),
  postgres: () => postgresStore(url),
  mariadb: () => mysqlStore(url),
  etcd: () => etcdStore(url),
  zookeeper: () => zookeeperStore(url),
};
const locks = new LockService({ store: STORES[store]() });
const WAYS = {
  async 'the close of its service'() {
    await locks.withLock(key, () => undefined);
    await locks.close();
  },
  async 'the end of await using'() {
    const lock = await locks.acquire(key);
    await lock[Symbol.asyncDispose]();
  },
};
await WAYS[way]();
process.exit();
