import { Kysely, PostgresDialect, sql } from 'kysely';
import { lockKey } from 'nestjs-distributed-lock';
import pg from 'pg';
import { DataSource } from 'typeorm';
import * as kysely from '../../docs/recipes/fenced-kysely.js';
import * as typeorm from '../../docs/recipes/fenced-typeorm.js';
import { HeldSale } from '../../docs/recipes/held-sale.js';
import { fenced, READ, WRITE, type Database, type Goods } from '../../docs/recipes/stock.js';
import type { OpenTransactions } from './fenced-transactions.contract.js';

const databaseOf = (client: pg.Pool | pg.PoolClient): Database => ({
  query: async (text, values) => (await client.query<Goods>(text, values)).rows,
});

/** Of the packages that the project has anyway; the others are in test/stores. */
export const openTransactions: Readonly<Record<string, OpenTransactions>> = {
  async pg(url, connections) {
    const pool = new pg.Pool({ connectionString: url, max: connections });
    const transaction = async (work: (client: pg.PoolClient) => Promise<unknown>): Promise<unknown> => {
      const client = await pool.connect();
      try {
        await client.query('BEGIN');
        const result = await work(client);
        await client.query('COMMIT');
        return result;
      } catch (error) {
        await client.query('ROLLBACK');
        throw error;
      } finally {
        client.release();
      }
    };
    const database = databaseOf(pool);
    return {
      transaction: (work) =>
        transaction((client) =>
          work({
            query: (text, values) => client.query(text, values),
            raiseFence: (id, fence) => fenced(databaseOf(client), READ, fence, id),
            run: (text) => client.query(text),
          }),
        ),
      sales: (locks) => ({
        sellGuarded: (id) =>
          locks.withLock(lockKey`goods:${id}`, async (lock) => {
            const { stock } = await fenced(database, READ, lock, id);
            if (stock === 0) throw new Error('sold out');
            return (await fenced(database, WRITE, lock, id, stock - 1)).stock;
          }),
        sellHeld: (id) => new HeldSale(locks, pool).sellOne(id),
      }),
      close: () => pool.end(),
    };
  },

  async TypeORM(url, connections) {
    const entities = [typeorm.Goods];
    const source = new DataSource({ type: 'postgres', url, entities, poolSize: connections });
    await source.initialize();
    return {
      transaction: (work) =>
        source.transaction((manager) =>
          work({
            query: typeorm.typeormQuery(manager),
            raiseFence: (id, fence) => typeorm.raiseFence(manager, id, fence),
            run: (text) => manager.query(text),
          }),
        ),
      sales: (locks) => new typeorm.TypeormSale(locks, source),
      close: () => source.destroy(),
    };
  },

  async Kysely(url, connections) {
    const pool = new pg.Pool({ connectionString: url, max: connections });
    const db = new Kysely<kysely.Tables>({
      dialect: new PostgresDialect({ pool }),
    });
    return {
      transaction: (work) =>
        db.transaction().execute((trx) =>
          work({
            query: kysely.kyselyQuery(trx),
            raiseFence: (id, fence) => kysely.raiseFence(trx, id, fence),
            run: (text) => sql.raw(text).execute(trx),
          }),
        ),
      sales: (locks) => new kysely.KyselySale(locks, db),
      close: () => db.destroy(),
    };
  },
};
