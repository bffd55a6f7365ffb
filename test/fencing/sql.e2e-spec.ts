import 'reflect-metadata';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { CompiledQuery, Kysely, PostgresDialect } from 'kysely';
import mysql from 'mysql2/promise';
import { LockService, memoryStore } from 'nestjs-distributed-lock';
import {
  FencedTable,
  StaleTokenError,
  type Fence,
  type SqlAnswer,
  type SqlQuery,
  type SqlRow,
} from 'nestjs-distributed-lock/guard';
import pg from 'pg';
import { DataSource } from 'typeorm';
import { startMariadbServer } from '#mariadb-server';
import { startDatabaseServer, type DatabaseServer } from '../../apps/seckill/src/demo/database-server.js';
import { mysqlQuery, pgQuery } from '../docs/recipes/fenced-queries.js';
import { typeormQuery } from '../docs/recipes/fenced-typeorm.js';
import { failureOf } from '../support/lock-services.js';

interface Engine {
  readonly query: SqlQuery;
  readonly dialect: 'postgres' | 'mysql';
  close(): Promise<unknown>;
}

let postgres: DatabaseServer;
const mariadb = await startMariadbServer().catch((error: Error) => {
  process.stderr.write(`\nMySQL is not tried. ${error.message}\n\n`);
  return undefined;
});

beforeAll(async () => {
  postgres = await startDatabaseServer();
}, 60_000);
afterAll(async () => {
  await postgres?.close();
  await mariadb?.stop();
});

/** Each statement a transaction of its own; several in one are in transactions.e2e-spec.ts. */
const ENGINES: Record<string, () => Promise<Engine>> = {
  async pg() {
    const pool = new pg.Pool({ connectionString: postgres.url, max: 4 });
    return { query: pgQuery(pool), dialect: 'postgres', close: () => pool.end() };
  },
  async Kysely() {
    const pool = new pg.Pool({ connectionString: postgres.url, max: 4 });
    const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) });
    const query: SqlQuery = (text, parameters) =>
      db.executeQuery<SqlRow>(CompiledQuery.raw(text, parameters));
    return { query, dialect: 'postgres', close: () => db.destroy() };
  },
  async TypeORM() {
    const source = await new DataSource({ type: 'postgres', url: postgres.url }).initialize();
    const query: SqlQuery = (text, parameters) =>
      source.transaction((manager) => typeormQuery(manager)(text, parameters));
    return { query, dialect: 'postgres', close: () => source.destroy() };
  },
  async mysql2() {
    const pool = mysql.createPool({ uri: mariadb!.url, connectionLimit: 4 });
    return { query: mysqlQuery(pool), dialect: 'mysql', close: () => pool.end() };
  },
};

const engines = Object.keys(ENGINES).filter((name) => name !== 'mysql2' || mariadb);

/** As large as real ones are: they do not fit into 32 bits, nor into the 14 digits that some print. */
const at = (token: number): Fence => ({ key: 'goods:7', fencingToken: 1_795_237_040_328_412 + token });

describe.each(engines)('a fenced table through %s', (name) => {
  let engine: Engine;
  let goods: FencedTable;
  const where = { id: 7 };

  const rowsOf = async (sql: string): Promise<readonly SqlRow[]> => {
    const answer = await engine.query(sql, []);
    return 'rows' in answer ? answer.rows : answer;
  };
  const stock = async () => (await rowsOf('SELECT stock FROM goods_fenced WHERE id = 7'))[0]?.['stock'];

  beforeAll(async () => {
    engine = await ENGINES[name]!();
    const table = `CREATE TABLE goods_fenced (id INT PRIMARY KEY, stock INT, fence BIGINT NOT NULL DEFAULT 0)`;
    await engine.query('DROP TABLE IF EXISTS goods_fenced', []);
    await engine.query(table, []);
    await engine.query('INSERT INTO goods_fenced (id, stock) VALUES (7, 5)', []);
    goods = new FencedTable(engine.query, { table: 'goods_fenced', dialect: engine.dialect });
  }, 60_000);
  afterAll(() => engine?.close());

  it('refuses the write of a holder once a later one has read, and changes nothing', async () => {
    await goods.read(where, at(1));
    await goods.read(where, at(2));
    const error = await failureOf(goods.update({ where, set: { stock: 99 } }, at(1)));
    expect(error).toBeInstanceOf(StaleTokenError);
    const [offered, seen] = [at(1).fencingToken, at(2).fencingToken];
    expect(error).toMatchObject({
      code: 'LOCK_LOST',
      key: 'goods:7',
      tokenOffered: offered,
      tokenSeen: seen,
    });
    expect(await stock()).toBe(5);
  });

  it('takes the same token as often as it comes, and the largest token of all', async () => {
    expect((await goods.update({ where, set: { stock: 4 } }, at(2))).changed).toBe(1);
    expect((await goods.update({ where, set: { stock: 4 } }, at(2))).changed).toBe(1);
    await goods.update({ where, set: { stock: 3 } }, { key: 'goods:7', fencingToken: 2 ** 53 - 2 });
    await expect(goods.update({ where, set: { stock: 2 } }, at(3))).rejects.toThrow(StaleTokenError);
    expect(await stock()).toBe(3);
  });

  it('tells a row that is not there from one that refuses', async () => {
    expect(await goods.update({ where: { id: 8 }, set: { stock: 1 } }, at(1))).toMatchObject({ changed: 0 });
    expect((await goods.read({ id: 8 }, at(1))).rows).toEqual([]);
  });

  it('writes a row for the first time, later again, and never for a holder that came before', async () => {
    const row = { where: { id: 9 }, set: { stock: 1 } };
    expect((await goods.upsert(row, at(1))).changed).toBeGreaterThan(0);
    expect((await goods.upsert({ where: { id: 9 }, set: { stock: 2 } }, at(2))).changed).toBeGreaterThan(0);
    await expect(goods.upsert(row, at(1))).rejects.toThrow(StaleTokenError);
    const rows = await rowsOf('SELECT stock FROM goods_fenced WHERE id = 9');
    expect(rows).toEqual([expect.objectContaining({ stock: 2 })]);
  });

  it('of writers that come at once and in any order keeps what the largest token wrote', async () => {
    const row = (token: number) => ({ where: { id: 10 }, set: { stock: token } });
    const tokens = [5, 1, 8, 3, 7, 2, 6, 4];
    await Promise.allSettled(tokens.map((token) => goods.upsert(row(token), at(token))));
    const rows = await rowsOf('SELECT stock FROM goods_fenced WHERE id = 10');
    expect(rows).toEqual([expect.objectContaining({ stock: 8 })]);
  });

  it('takes a lock as its fence, and values with quotes as values', async () => {
    const locks = new LockService({ store: memoryStore() });
    locks.open();
    await engine.query('DELETE FROM goods_fenced', []);
    await locks.withLock('goods:11', async (lock) => {
      const wicked = `11'; DROP TABLE goods_fenced; --`;
      await goods.upsert({ where: { id: 11 }, set: { stock: 1 } }, lock);
      await goods.read({ id: wicked }, lock).catch(() => 'refused as no number');
    });
    await locks.close();
    expect(await rowsOf('SELECT stock FROM goods_fenced')).toHaveLength(1);
  });
});

describe.each(engines)('a fence that is NULL, through %s,', (name) => {
  it('is said to refuse everybody, instead of passing for a row that is not there', async () => {
    const engine = await ENGINES[name]!();
    const { query, dialect } = engine;
    await query('DROP TABLE IF EXISTS goods_unfenced', []);
    await query('CREATE TABLE goods_unfenced (id INT PRIMARY KEY, fence BIGINT)', []);
    await query('INSERT INTO goods_unfenced (id) VALUES (7)', []);
    const goods = new FencedTable(query, { table: 'goods_unfenced', dialect });
    await expect(goods.read({ id: 7 }, at(1))).rejects.toThrow('fence of a row of goods_unfenced is NULL');
    expect(await goods.read({ id: 8 }, at(1))).toMatchObject({ changed: 0 });
    await engine.close();
  });
});

// oxlint-disable-next-line jest/no-disabled-tests, jest/expect-expect -- so that it is told
if (!mariadb) it.skip('through mysql2: no MariaDB is installed here, and none could be unpacked', () => {});

describe('a fenced table', () => {
  const none: SqlQuery = async () => ({ rows: [], changed: 1 });

  it('does not write without naming a row, or with what is no token', async () => {
    const table = new FencedTable(none, { table: 'goods' });
    await expect(table.update({ where: {} }, at(1))).rejects.toThrow('where must name the row of goods');
    for (const fencingToken of [0, -1, 1.5, NaN, 2 ** 53]) {
      await expect(table.update({ where: { id: 1 } }, { key: 'k', fencingToken })).rejects.toThrow(
        'whole number',
      );
    }
  });

  const id = { id: 1 };

  it('takes rows alone or under a name, as drivers answer', async () => {
    const row = { stock: 1 };
    const inPostgres = (answer: SqlAnswer) => new FencedTable(async () => answer, { table: 'goods' });
    for (const answer of [[row], { rows: [row] }, { rows: [row], rowCount: 1, changed: 1 }]) {
      expect(await inPostgres(answer).read(id, at(1))).toEqual({ rows: [row], changed: 1 });
      expect(await inPostgres(answer).update({ where: id }, at(1))).toEqual({ rows: [], changed: 1 });
    }
  });

  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a count alone, as of an execute', 1],
    ['text', 'UPDATE 1'],
    ['the pair of TypeORM', [[{ stock: 1 }], 1]],
    ['the pair of TypeORM, of which nothing was written', [[], 0]],
    ['no rows', { rowCount: 0 }],
    ['rows that are arrays', { rows: [[1]] }],
    ['a count that is a bigint, which equals no number', { rows: [], changed: 0n }],
    ['a count that is text', { rows: [], changed: '0' }],
    ['a count that is no number', { rows: [], changed: NaN }],
    ['no answer to what the row has seen', []],
  ])(
    'says so when a query function answers %s, so that no refusal passes for a write',
    async (_what, answer) => {
      const table = new FencedTable(async () => answer as SqlAnswer, { table: 'goods' });
      const failure = await failureOf(table.update({ where: id, set: { stock: 1 } }, at(1)));
      expect(failure).toMatchObject({ code: 'LOCK_CONFIGURATION' });
      expect(failure).toMatchObject({
        message: expect.stringContaining('query function of the table goods'),
      });
    },
  );

  it('asks for a count of what a write has met where no rows can come back', async () => {
    for (const answer of [[], { rows: [] }]) {
      const table = new FencedTable(async () => answer, { table: 'goods', dialect: 'mysql' });
      await expect(table.update({ where: id }, at(1))).rejects.toThrow('did not say how many rows');
    }
  });

  it('sends nothing for a row that cannot be told, or a name that some driver would read as a parameter', async () => {
    const sent: string[] = [];
    const query: SqlQuery = async (sql) => (sent.push(sql), [{ written: 1 }]);
    const table = new FencedTable(query, { table: 'goods' });
    for (const wrong of [null, undefined, { a: 1 }, JSON.parse('{"id":1}'), [1], NaN, () => 1]) {
      await expect(table.upsert({ where: { id: wrong } }, at(1))).rejects.toThrow('equals no column');
    }
    for (const wrong of [null, undefined]) {
      await expect(table.read(wrong as never, at(1))).rejects.toThrow('it is empty');
      await expect(table.read(id, wrong as never)).rejects.toThrow('whole number');
    }
    for (const wrong of ['.goods', 'shop..goods', 'go?ods', 'go$1ods', 'go\0ods']) {
      const named = new FencedTable(query, { table: wrong });
      await expect(named.read(id, at(1))).rejects.toThrow('cannot name a table');
      await expect(table.update({ where: id, set: { [wrong]: 1 } }, at(1))).rejects.toThrow('cannot name');
    }
    expect(sent).toEqual([]);
    for (const value of ['1', 1, 1n, true, new Date(), Buffer.from('1')])
      await table.read({ id: value }, at(1));
    await table.update({ where: { US$: 1 } }, at(1));
    expect(sent).toHaveLength(7);
  });

  it('quotes names, so that none of them is SQL', async () => {
    const sent: string[] = [];
    const query: SqlQuery = async (sql) => (sent.push(sql), { rows: [], changed: 1 });
    for (const dialect of ['postgres', 'mysql'] as const) {
      const table = new FencedTable(query, { table: 'shop.go"o`ds', fence: 'seen', dialect });
      await table.update({ where: { 'i d': 1 }, set: { stock: 2 } }, at(1));
    }
    expect(sent).toEqual([
      'UPDATE "shop"."go""o`ds" SET "stock" = $1, "seen" = $2 WHERE "i d" = $3 AND "seen" <= $4 RETURNING 1 AS written',
      'UPDATE `shop`.`go"o``ds` SET `stock` = ?, `seen` = ? WHERE `i d` = ? AND `seen` <= ?',
    ]);
  });
});
