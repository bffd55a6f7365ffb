import { Kysely, PostgresDialect, sql } from 'kysely';
import pg from 'pg';
import { DataSource } from 'typeorm';
import { KyselySale, kyselyQuery } from '../../docs/recipes/fenced-kysely.js';
import { pgQuery } from '../../docs/recipes/fenced-queries.js';
import { Sale } from '../../docs/recipes/fenced-sale.js';
import { HeldSale } from '../../docs/recipes/held-sale.js';
import { Goods, TypeormSale, typeormQuery } from '../../docs/recipes/fenced-typeorm.js';
import type { OpenTransactions } from './fenced-transactions.contract.js';

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
    return {
      transaction: (work) =>
        transaction((client) => work({ query: pgQuery(client), run: (text) => client.query(text) })),
      sales: (locks) => ({
        sellGuarded: (id) => new Sale(locks, pgQuery(pool)).sellOne(id),
        sellHeld: (id) => new HeldSale(locks, pool).sellOne(id),
      }),
      close: () => pool.end(),
    };
  },

  async TypeORM(url, connections) {
    const entities = [Goods];
    const source = new DataSource({ type: 'postgres', url, entities, poolSize: connections });
    await source.initialize();
    return {
      transaction: (work) =>
        source.transaction((manager) =>
          work({ query: typeormQuery(manager), run: (text) => manager.query(text) }),
        ),
      sales: (locks) => new TypeormSale(locks, source),
      close: () => source.destroy(),
    };
  },

  async Kysely(url, connections) {
    const pool = new pg.Pool({ connectionString: url, max: connections });
    const db = new Kysely<{ goods: { id: number; stock: number } }>({
      dialect: new PostgresDialect({ pool }),
    });
    return {
      transaction: (work) =>
        db
          .transaction()
          .execute((trx) => work({ query: kyselyQuery(trx), run: (text) => sql.raw(text).execute(trx) })),
      sales: (locks) => new KyselySale(locks, db),
      close: () => db.destroy(),
    };
  },
};
