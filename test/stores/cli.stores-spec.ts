import { afterEach, describe, expect, it } from '@jest/globals';
import { LockService, type LockStoreFactory } from 'nestjs-distributed-lock';
import { etcdStore } from 'nestjs-distributed-lock/etcd';
import { mysqlStore } from 'nestjs-distributed-lock/mysql';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { zookeeperStore } from 'nestjs-distributed-lock/zookeeper';
import { startEtcdServer } from '#etcd-server';
import { startMariadbServer } from '#mariadb-server';
import { startMysqlServer } from '#mysql-server';
import { startPostgresServer } from '#postgres-server';
import { until } from '#until';
import { createConnection } from 'mysql2/promise';
import pg from 'pg';
import { startZookeeperServer } from '#zookeeper-server';
import { runCli, runHere } from '../admin/support/cli.js';
import { closeServices, openServiceOn } from '../support/lock-services.js';
import { EtcdGateway } from './etcd/support/etcd-gateway.js';
import { describeWith } from './support/describe-with.js';
import { ZookeeperHand } from './zookeeper/support/zookeeper-hand.js';

interface Started {
  readonly url: string;
  readonly store: LockStoreFactory;
  /** Writes a text in place of the document of `shop:newer`, which was locked before. */
  overwrite(text: string): Promise<unknown>;
  stop(): Promise<void>;
}

/** In a format that no release writes. */
const NEWER = '[9,[],[]]';

const SERVERS = {
  postgres: async (): Promise<Started> => {
    const server = await startPostgresServer();
    const { url } = server;
    const overwrite = (text: string) => onPostgres(url, `UPDATE nest_lock SET state = '${text}'`);
    return { url, store: postgresStore(url), overwrite, stop: () => server.stop() };
  },
  mysql: () => mysqlBy(startMysqlServer),
  mariadb: () => mysqlBy(startMariadbServer),
  etcd: async (): Promise<Started> => {
    const server = await startEtcdServer();
    const url = server.url.replace('http:', 'etcd:');
    const overwrite = (text: string) => new EtcdGateway(server.url).put('nest-lock/l/shop:newer', text);
    return { url, store: etcdStore(server.url), overwrite, stop: () => server.stop() };
  },
  zookeeper: async (): Promise<Started> => {
    const server = await startZookeeperServer();
    const address = server.url.replace(/^[a-z]+:\/\//, '');
    const overwrite = async (text: string) => {
      const hand = new ZookeeperHand(Number(address.split(':')[1]));
      await hand.set(hand.paths.documentOf('shop:newer'), text);
      await hand.close();
    };
    const stop = () => server.stop();
    return { url: `zookeeper://${address}`, store: zookeeperStore(address), overwrite, stop };
  },
} as const;

async function mysqlBy(start: typeof startMysqlServer): Promise<Started> {
  const server = await start();
  const { url } = server;
  const overwrite = (text: string) => onMysql(url, `UPDATE nest_lock SET state = '${text}'`);
  return { url, store: mysqlStore(url), overwrite, stop: () => server.stop() };
}

async function onPostgres(url: string, ...statements: readonly string[]): Promise<readonly object[]> {
  const client = new pg.Client(url);
  await client.connect();
  const rows: object[] = [];
  for (const sql of statements) rows.push(...(await client.query<object>(sql)).rows);
  await client.end();
  return rows;
}

async function onMysql(url: string, ...statements: readonly string[]): Promise<readonly object[]> {
  const connection = await createConnection(url);
  const rows: object[] = [];
  for (const sql of statements) {
    const [found] = await connection.query(sql);
    if (Array.isArray(found)) rows.push(...(found as object[]));
  }
  await connection.end();
  return rows;
}

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

    it('lists the keys that it can read, says which it cannot and why, and tells of both by its exit code', async () => {
      started = await SERVERS[name]();
      locks = new LockService({ store: started.store, shutdownGraceMs: 0, keyPrefix: 'shop:' });
      await (await locks.acquire('newer')).release();
      await started.overwrite(NEWER);
      await using _ = await locks.acquire('goods:42');
      const words = ['ls', '--json', '--store', started.url, '--prefix', 'shop:'];
      const { code, out, complaints } = await runHere(words);
      expect([
        code,
        out
          .trimEnd()
          .split('\n')
          .map((line) => (JSON.parse(line) as { key: string }).key),
      ]).toEqual([3, ['goods:42']]);
      expect(complaints).toMatch(
        /^"newer" cannot be read: The lock "shop:newer" is written in format 9, and this release reads format 1\. .*\n$/,
      );
      expect(await locks.list()).toMatchObject({
        entries: [{ key: 'goods:42' }],
        unreadable: [{ key: 'newer', message: expect.stringContaining('format 9') }],
      });
    }, 90_000);
  });
});

const DATABASES = { postgres: onPostgres, mysql: onMysql, mariadb: onMysql } as const;

describe.each(Object.keys(DATABASES) as (keyof typeof DATABASES)[])('a command on %s', (name) => {
  let started: Started | undefined;
  afterEach(() => started?.stop());

  describeWith(name)('without a lock table', () => {
    it('says that there is none, and makes none: inspect and release neither', async () => {
      started = await SERVERS[name]();
      for (const words of [['ls'], ['inspect', 'goods:42'], ['release', 'goods:42', '--yes']]) {
        expect(await runHere([...words, '--store', started.url])).toMatchObject({
          code: 2,
          out: '',
          complaints: expect.stringMatching(/^There is no lock table nest_lock in this database, .*\n$/),
        });
      }
      const tables = "SELECT * FROM information_schema.tables WHERE table_name = 'nest_lock'";
      expect(await DATABASES[name](started.url, tables)).toEqual([]);
    }, 90_000);
  });
});

/** How a user with SELECT alone is made. The MariaDB of the tests has no users. */
const READERS = {
  postgres: {
    make: ['CREATE ROLE reader LOGIN', 'GRANT SELECT ON nest_lock TO reader'],
    as: (url: string) => url.replace('postgres@', 'reader@'),
  },
  mysql: {
    make: ["CREATE USER reader@'%'", "GRANT SELECT ON test.nest_lock TO reader@'%'"],
    as: (url: string) => url.replace('root@', 'reader@'),
  },
} as const;

describe.each(Object.keys(READERS) as (keyof typeof READERS)[])('a command on %s', (name) => {
  const { make, as } = READERS[name];
  let started: Started | undefined;
  afterEach(async () => {
    await closeServices();
    await started?.stop();
  });

  describeWith(name)('as a user with the right SELECT alone', () => {
    it('lists and inspects, and releases nothing', async () => {
      started = await SERVERS[name]();
      const lock = await openServiceOn(started.store).acquire('goods:42');
      await DATABASES[name](started.url, ...make);
      const store = ['--store', as(started.url)];
      const listed = await runHere(['ls', ...store]);
      expect(listed).toMatchObject({ code: 0, out: expect.stringContaining('goods:42') });
      expect(await runHere(['inspect', 'goods:42', ...store])).toMatchObject({ code: 0 });
      expect(await runHere(['release', 'goods:42', '--yes', ...store])).toMatchObject({ code: 3 });
      lock.assertHeld();
    }, 90_000);
  });
});
