import { afterEach, describe, expect, it } from '@jest/globals';
import { LockService, type LockStoreFactory } from 'nestjs-distributed-lock';
import { etcdStore } from 'nestjs-distributed-lock/etcd';
import { mysqlStore } from 'nestjs-distributed-lock/mysql';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { zookeeperStore } from 'nestjs-distributed-lock/zookeeper';
import { startEtcdServer } from '#etcd-server';
import { startMysqlServer } from '#mysql-server';
import { startPostgresServer } from '#postgres-server';
import { until } from '#until';
import { startZookeeperServer } from '#zookeeper-server';
import { runCli, runHere } from '../admin/support/cli.js';
import { describeWith } from './support/describe-with.js';

interface Started {
  readonly url: string;
  readonly store: LockStoreFactory;
  stop(): Promise<void>;
}

const SERVERS = {
  postgres: async (): Promise<Started> => {
    const server = await startPostgresServer();
    return { url: server.url, store: postgresStore(server.url), stop: () => server.stop() };
  },
  mysql: async (): Promise<Started> => {
    const server = await startMysqlServer();
    return { url: server.url, store: mysqlStore(server.url), stop: () => server.stop() };
  },
  etcd: async (): Promise<Started> => {
    const server = await startEtcdServer();
    const url = server.url.replace('http:', 'etcd:');
    return { url, store: etcdStore(server.url), stop: () => server.stop() };
  },
  zookeeper: async (): Promise<Started> => {
    const server = await startZookeeperServer();
    const address = server.url.replace(/^[a-z]+:\/\//, '');
    return { url: `zookeeper://${address}`, store: zookeeperStore(address), stop: () => server.stop() };
  },
} as const;

describe.each(Object.keys(SERVERS) as (keyof typeof SERVERS)[])('the terminal command on %s', (name) => {
  let started: Started | undefined;
  let locks: LockService | undefined;
  afterEach(async () => {
    await locks?.close();
    await started?.stop();
  });

  describeWith(name)('as an operator uses it', () => {
    it('inspects a key and releases it by force, with the URL of the server', async () => {
      started = await SERVERS[name]();
      const { url: store } = started;
      locks = new LockService({ store: started.store, shutdownGraceMs: 0, keyPrefix: 'shop:' });
      const lock = await locks.acquire('goods:42');
      const asked = (words: string[]) => [...words, '--store', store, '--prefix', 'shop:'];
      const cli = (...words: string[]) => runHere(asked(words));
      expect(await runCli(asked(['inspect', 'goods:42']))).toMatchObject({
        code: 0,
        out: expect.stringMatching(/^goods:42: exclusive, token \d+/),
      });
      expect((await cli('ls', 'goods:')).out).toContain('goods:42');
      expect(await cli('release', 'goods:42', '--yes')).toMatchObject({ code: 0 });
      await until(() => lock.signal.aborted);
      expect(await cli('inspect', 'goods:42')).toMatchObject({ code: 1 });
    }, 90_000);
  });
});
