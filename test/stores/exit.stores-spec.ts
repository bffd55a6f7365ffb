import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from '@jest/globals';
import type { LockStoreFactory } from 'nestjs-distributed-lock';
import { etcdStore } from 'nestjs-distributed-lock/etcd';
import { mysqlStore } from 'nestjs-distributed-lock/mysql';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { zookeeperStore } from 'nestjs-distributed-lock/zookeeper';
import { startEtcdServer } from '#etcd-server';
import { startMariadbServer } from '#mariadb-server';
import { startPostgresServer } from '#postgres-server';
import { spawnGuarded } from '#processes';
import { startRedisServer } from '#redis-server';
import { startZookeeperServer } from '#zookeeper-server';
import type { OwnServer } from '../../tools/own-server/index.mjs';
import { closeServices, openServiceOn } from '../support/lock-services.js';
import { ownServer } from '../support/own-server.js';
import { PATIENT } from '../support/patient.js';
import { describeWith } from './support/describe-with.js';

const SCRIPT = fileURLToPath(new URL('exit.worker.mjs', import.meta.url));
/** What a process awaits before it calls `process.exit()`. */
const AWAITED = ['the close of its service', 'the end of await using'];

interface Engine {
  readonly block: typeof describe | typeof describe.skip;
  /** The stores of the process that exits. */
  readonly stores: readonly string[];
  readonly start: () => Promise<OwnServer>;
  readonly open: (url: string) => LockStoreFactory;
}

const ENGINES: readonly Engine[] = [
  {
    block: describe,
    stores: ['ioredis', 'node-redis'],
    start: startRedisServer,
    open: (url) => redisStore(url, PATIENT),
  },
  {
    block: describeWith('postgres'),
    stores: ['postgres'],
    start: startPostgresServer,
    open: (url) => postgresStore(url, PATIENT),
  },
  {
    block: describeWith('mariadb'),
    stores: ['mariadb'],
    start: startMariadbServer,
    open: (url) => mysqlStore(url, PATIENT),
  },
  { block: describeWith('etcd'), stores: ['etcd'], start: startEtcdServer, open: (url) => etcdStore(url) },
  {
    block: describeWith('zookeeper'),
    stores: ['zookeeper'],
    start: startZookeeperServer,
    open: (url) => zookeeperStore(url),
  },
];

for (const { block, stores, start, open } of ENGINES) {
  block(`a process on ${stores.join(' and ')}`, () => {
    const server = ownServer(start);
    afterEach(closeServices);

    it.each(stores.flatMap((store) => AWAITED.map((way) => [store, way] as const)))(
      'leaves no key taken when it exits, with %s, as soon as it has awaited %s',
      async (store, way) => {
        const key = `exit:${store}:${way}`;
        const { child, exited } = spawnGuarded(process.execPath, [SCRIPT, store, server.url, key, way], {
          env: process.env,
          stdio: 'pipe',
        });
        let errors = '';
        child.stderr?.on('data', (text: Buffer) => (errors += text.toString()));
        expect(await exited).toMatchObject({ code: 0 });
        expect(errors).toBe('');
        expect(await openServiceOn(open(server.url)).inspect(key)).toBeNull();
      },
      60_000,
    );
  });
}
