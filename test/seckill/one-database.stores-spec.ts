import 'reflect-metadata';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { createConnection } from 'mysql2/promise';
import pg from 'pg';
import { startMariadbServer } from '#mariadb-server';
import { startPgbouncer } from '#pgbouncer';
import { startPostgresServer, type PostgresServer } from '#postgres-server';
import { until } from '#until';
import { describeWith } from '../stores/support/describe-with.js';
import { ownServer } from '../support/own-server.js';
import { watch } from './support/live-stream.js';
import { LIMIT_MS, OWN_SERVERS, programOf, runProgram } from './support/run-program.js';
import { expectAllSold, expectKept, SMALL } from './support/small-sale.js';

describeWith('postgres', 'pgbouncer')('the demo with locks and goods in one Postgres', () => {
  let server: PostgresServer;
  let admin: pg.Client;

  beforeAll(async () => {
    server = await startPostgresServer();
    admin = new pg.Client(server.url);
    await admin.connect();
  }, 2 * LIMIT_MS);
  afterAll(async () => {
    await admin?.end();
    await server?.stop();
  });

  const tables = async () => {
    const sql = `SELECT table_schema, table_name FROM information_schema.tables
      WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2`;
    const { rows } = await admin.query<{ table_schema: string; table_name: string }>(sql);
    return rows.map(({ table_schema, table_name }) => `${table_schema}.${table_name}`);
  };
  const schemas = async () =>
    (await admin.query("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'flash_sale%'")).rows;

  it(
    'kills the process that holds the lock, and another goes on when its lease is over, not before; leaves nothing there',
    async () => {
      const args = ['--store', 'postgres', '--instances', '2', '--kill', ...SMALL];
      const ended = await runProgram('demo', args, { DATABASE_URL: server.url });
      expectAllSold(ended);
      expectKept(ended);
      expect(ended.stdout).toContain(
        '2 processes, data in the Postgres of DATABASE_URL, locks in the same Postgres',
      );
      expect(ended.stdout).toMatch(/schema flash_sale_[0-9a-f]{8} .* dropped at the end/);
      expect([await tables(), await schemas()]).toEqual([[], []]);
    },
    2 * LIMIT_MS,
  );

  it(
    'starts a Postgres where none is named',
    async () => {
      const ended = await runProgram('demo', ['--store', 'postgres', ...SMALL]);
      expectAllSold(ended);
      expect(ended.stdout).toContain('data in a Postgres of its own, locks in the same Postgres');
    },
    2 * LIMIT_MS,
  );

  it.each(['1', '2'])(
    'with %s instances leaves nothing there when it is ended in mid-sale',
    async (instances) => {
      const args = ['--store', 'postgres', '--instances', instances, '--stock', '1000'];
      const demo = spawn(process.execPath, [programOf('demo'), ...args], {
        env: { ...process.env, ...OWN_SERVERS, DATABASE_URL: server.url },
      });
      try {
        let printed = '';
        for (const stream of [demo.stdout, demo.stderr]) {
          stream.setEncoding('utf8').on('data', (text: string) => (printed += text));
        }
        await until(() => printed.includes('buyers answered'), LIMIT_MS);
        expect((await tables()).map((name) => name.split('.')[1])).toEqual(
          expect.arrayContaining(['goods', 'nest_lock', 'orders']),
        );
        demo.kill('SIGINT');
        const [code] = await once(demo, 'close');
        expect(code).toBe(130);
        expect(printed).not.toContain('rror');
        expect([await tables(), await schemas()]).toEqual([[], []]);
      } finally {
        demo.kill('SIGKILL');
      }
    },
    2 * LIMIT_MS,
  );

  it(
    'says which right is missing in the Postgres of DATABASE_URL',
    async () => {
      await admin.query('CREATE ROLE guest LOGIN');
      const DATABASE_URL = server.url.replace('postgres@', 'guest@');
      const { status, stderr } = await runProgram('demo', ['--store', 'postgres'], { DATABASE_URL });
      expect(stderr).toMatch(
        /schema flash_sale_\w+ cannot be used in the Postgres of DATABASE_URL: permission denied/,
      );
      expect(stderr).toContain('a user who may create a schema');
      expect(status).toBe(1);
    },
    2 * LIMIT_MS,
  );

  it.each<[string, Record<string, string>]>([
    ['refuses its startup parameter', {}],
    ['ignores its startup parameter', { ignore_startup_parameters: 'options' }],
  ])(
    'refuses a pooler that %s',
    async (_, settings) => {
      const pooler = await startPgbouncer(server, { settings });
      try {
        const { status, stderr } = await runProgram('demo', ['--store', 'postgres'], {
          DATABASE_URL: pooler.url,
        });
        expect(stderr).toContain('Name a server without a pooler');
        expect(status).toBe(1);
        expect(await schemas()).toEqual([]);
      } finally {
        await pooler.stop();
      }
    },
    2 * LIMIT_MS,
  );

  it(
    'is served as a page that says so, from tables that stay in the schema flash_sale',
    async () => {
      const args = ['--store', 'postgres', '--instances', '2'];
      const shop = spawn(process.execPath, [programOf('serve'), ...args], {
        env: { ...process.env, ...OWN_SERVERS, DATABASE_URL: server.url },
      });
      try {
        let printed = '';
        shop.stdout.setEncoding('utf8').on('data', (text: string) => (printed += text));
        await until(() => printed.includes('kill -9'), LIMIT_MS);
        expect(printed).toContain('schema flash_sale of the Postgres of DATABASE_URL, which stays there');
        const [, url] = /instance \d +(\S+)/.exec(printed)!;
        expect(
          (await fetch(`${url}/goods/1/purchase`, { method: 'POST', headers: { 'x-user-id': 'ann' } }))
            .status,
        ).toBe(201);
        const [view] = await watch(url!, () => true);
        expect(view!.places).toBe('Locks and goods are in one Postgres.');
        shop.kill('SIGINT');
        await once(shop, 'close');
        expect(await tables()).toEqual(
          ['goods', 'instances', 'nest_lock', 'orders', 'reports'].map((name) => `flash_sale.${name}`),
        );
      } finally {
        shop.kill('SIGKILL');
      }
    },
    2 * LIMIT_MS,
  );
});

describeWith('mariadb', 'postgres')('the demo with its locks in MariaDB', () => {
  const mariadb = ownServer(startMariadbServer);
  const postgres = ownServer(startPostgresServer);

  it(
    'sells all, and leaves nothing there',
    async () => {
      const urls = { MYSQL_URL: mariadb.url, DATABASE_URL: postgres.url };
      const ended = await runProgram('demo', ['--store', 'mysql', ...SMALL], urls);
      expectAllSold(ended);
      expect(ended.stdout).toContain('data in the Postgres of DATABASE_URL, locks in the MySQL of MYSQL_URL');
      expect(ended.stdout).toMatch(
        /schema flash_sale_[0-9a-f]{8} of the MySQL of MYSQL_URL, .* dropped at the end/,
      );
      const connection = await createConnection(mariadb.url);
      const [rows] = await connection.query(
        "SELECT table_name FROM information_schema.tables WHERE table_schema LIKE 'flash_sale%' OR table_schema = 'test'",
      );
      await connection.end();
      expect(rows).toEqual([]);
    },
    2 * LIMIT_MS,
  );
});
