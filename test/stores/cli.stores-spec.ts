import { afterEach, expect, it } from '@jest/globals';
import type { LockStoreFactory } from 'nestjs-distributed-lock';
import { etcdStore } from 'nestjs-distributed-lock/etcd';
import { mysqlStore } from 'nestjs-distributed-lock/mysql';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { zookeeperStore } from 'nestjs-distributed-lock/zookeeper';
import { createConnection } from 'mysql2/promise';
import pg from 'pg';
import { startEtcdServer } from '#etcd-server';
import { startMariadbServer } from '#mariadb-server';
import { startMysqlServer } from '#mysql-server';
import { startPostgresServer } from '#postgres-server';
import type { ServerName } from '#servers';
import { until } from '#until';
import { startZookeeperServer } from '#zookeeper-server';
import type { OwnServer } from '../../tools/own-server/index.mjs';
import { runCli, runHere } from '../admin/support/cli.js';
import { closeServices, openServiceOn } from '../support/lock-services.js';
import { PATIENT } from '../support/patient.js';
import { ownServer } from '../support/own-server.js';
import { EtcdGateway } from './etcd/support/etcd-gateway.js';
import { describeWith } from './support/describe-with.js';
import { ZookeeperHand } from './zookeeper/support/zookeeper-hand.js';

interface Engine {
  readonly name: ServerName;
  readonly start: () => Promise<OwnServer>;
  readonly store: (url: string) => LockStoreFactory;
  /** What `--store` is told. */
  readonly targetOf: (url: string) => string;
  /** Writes a text in place of the document of `shop:newer`, which was locked before. */
  readonly overwrite: (url: string, text: string) => Promise<unknown>;
  /** Runs statements on a database. */
  readonly run?: (url: string, statements: readonly string[]) => Promise<object>;
  /** How a user with the right SELECT alone is made, and how its URL differs. The MariaDB of the tests has no users. */
  readonly reader?: { readonly make: readonly string[]; readonly renamed: readonly [string, string] };
}

/** In a format that no release writes. */
const NEWER = '[9,[],[]]';
const overwriting = (text: string) => [`UPDATE nest_lock SET state = '${text}' WHERE name = 'shop:newer'`];

async function onPostgres(url: string, statements: readonly string[]): Promise<object> {
  const client = new pg.Client(url);
  await client.connect();
  const results = [];
  for (const sql of statements) results.push((await client.query<object>(sql)).rows);
  await client.end();
  return results.flat();
}

async function onMysql(url: string, statements: readonly string[]): Promise<object> {
  const connection = await createConnection(url);
  const results = [];
  for (const sql of statements) results.push((await connection.query(sql))[0]);
  await connection.end();
  return results.flat();
}

const MYSQL = {
  store: (url: string) => mysqlStore(url, PATIENT),
  targetOf: (url: string) => url,
  overwrite: (url: string, text: string) => onMysql(url, overwriting(text)),
  run: onMysql,
};

const ENGINES: readonly Engine[] = [
  {
    name: 'postgres',
    start: startPostgresServer,
    store: (url) => postgresStore(url, PATIENT),
    targetOf: (url) => url,
    overwrite: (url, text) => onPostgres(url, overwriting(text)),
    run: onPostgres,
    reader: {
      make: ['CREATE ROLE reader LOGIN', 'GRANT SELECT ON nest_lock TO reader'],
      renamed: ['postgres@', 'reader@'],
    },
  },
  {
    name: 'mysql',
    start: startMysqlServer,
    ...MYSQL,
    reader: {
      make: ["CREATE USER reader@'%'", "GRANT SELECT ON test.nest_lock TO reader@'%'"],
      renamed: ['root@', 'reader@'],
    },
  },
  { name: 'mariadb', start: startMariadbServer, ...MYSQL },
  {
    name: 'etcd',
    start: startEtcdServer,
    store: (url) => etcdStore(url),
    targetOf: (url) => url.replace('http:', 'etcd:'),
    overwrite: (url, text) => new EtcdGateway(url).put('nest-lock/l/shop:newer', text),
  },
  {
    name: 'zookeeper',
    start: startZookeeperServer,
    store: (url) => zookeeperStore(url),
    targetOf: (url) => `zookeeper://${url}`,
    async overwrite(url, text) {
      const hand = new ZookeeperHand(Number(url.split(':')[1]));
      await hand.set(hand.paths.documentOf('shop:newer'), text);
      await hand.close();
    },
  },
];

for (const { name, start, store, targetOf, overwrite, run, reader } of ENGINES) {
  describeWith(name)(`the terminal command on ${name}`, () => {
    const server = ownServer(start);
    afterEach(closeServices);

    const openShop = () => openServiceOn(store(server.url), { keyPrefix: 'shop:' });
    const inShop = (words: readonly string[]) => [
      ...words,
      '--store',
      targetOf(server.url),
      '--prefix',
      'shop:',
    ];
    const cli = (...words: string[]) => runHere(inShop(words));

    // The first test, as a service makes the table.
    if (run) {
      it('says that there is no lock table, and makes none: inspect and release neither', async () => {
        for (const words of [['ls'], ['inspect', 'goods:42'], ['release', 'goods:42', '--yes']]) {
          expect(await cli(...words)).toMatchObject({
            code: 2,
            out: '',
            complaints: expect.stringMatching(/^There is no lock table nest_lock in this database, .*\n$/),
          });
        }
        const tables = "SELECT * FROM information_schema.tables WHERE table_name = 'nest_lock'";
        expect(await run(server.url, [tables])).toEqual([]);
      });
    }

    it('inspects a key and releases it by force, with the URL of the server', async () => {
      const lock = await openShop().acquire('goods:42');
      expect(await runCli(inShop(['inspect', 'goods:42']))).toMatchObject({
        code: 0,
        out: expect.stringMatching(/^goods:42: exclusive, token \d+/),
      });
      expect((await cli('ls', 'goods:')).out).toContain('goods:42');
      expect(await cli('release', 'goods:42', '--yes')).toMatchObject({ code: 0 });
      await until(() => lock.signal.aborted);
      expect(await cli('inspect', 'goods:42')).toMatchObject({ code: 1 });
    });

    if (run && reader) {
      it('lists and inspects as a user with the right SELECT alone, and releases nothing', async () => {
        await using lock = await openShop().acquire('goods:42');
        await run(server.url, reader.make);
        const asReader = (...words: string[]) =>
          runHere([...words, '--store', server.url.replace(...reader.renamed), '--prefix', 'shop:']);
        expect(await asReader('ls')).toMatchObject({ code: 0, out: expect.stringContaining('goods:42') });
        expect(await asReader('inspect', 'goods:42')).toMatchObject({ code: 0 });
        expect(await asReader('release', 'goods:42', '--yes')).toMatchObject({ code: 3 });
        lock.assertHeld();
      });
    }

    it('lists the keys that it can read, says which it cannot and why, and tells of both by its exit code', async () => {
      const locks = openShop();
      await (await locks.acquire('newer')).release();
      await overwrite(server.url, NEWER);
      await using _ = await locks.acquire('goods:42');
      const { code, out, complaints } = await cli('ls', '--json');
      const keys = out
        .trimEnd()
        .split('\n')
        .map((line) => (JSON.parse(line) as { key: string }).key);
      expect([code, keys]).toEqual([3, ['goods:42']]);
      expect(complaints).toMatch(
        /^"newer" cannot be read: The lock "shop:newer" is written in format 9, and this release reads format 1\. .*\n$/,
      );
      expect(await locks.list()).toMatchObject({
        entries: [{ key: 'goods:42' }],
        unreadable: [{ key: 'newer', message: expect.stringContaining('format 9') }],
      });
    });
  });
}
