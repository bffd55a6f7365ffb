import { MikroORM } from '@mikro-orm/postgresql';
import { PrismaPg } from '@prisma/adapter-pg';
import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import knex from 'knex';
import pg from 'pg';
import type { OpenTransactions } from '../../fencing/support/fenced-transactions.contract.js';
import * as drizzled from './recipes/fenced-drizzle.js';
import * as knexed from './recipes/fenced-knex.js';
import * as mikroOrm from './recipes/fenced-mikro-orm.js';
import * as prismatic from './recipes/fenced-prisma.js';
import { PrismaClient } from './recipes/generated/prisma/client.js';

/** Of the packages that only this folder has. */
export const openTransactions: Readonly<Record<string, OpenTransactions>> = {
  async Prisma(url, connections) {
    const adapter = new PrismaPg({ connectionString: url, max: connections });
    const prisma = new PrismaClient({ adapter });
    return {
      transaction: (work) =>
        prisma.$transaction((tx) =>
          work({
            query: prismatic.prismaQuery(tx),
            raiseFence: (id, fence) => prismatic.raiseFence(tx, id, fence),
            run: (text) => tx.$executeRawUnsafe(text),
          }),
        ),
      sales: (locks) => new prismatic.PrismaSale(locks, prisma),
      close: () => prisma.$disconnect(),
    };
  },

  async Drizzle(url, connections) {
    const pool = new pg.Pool({ connectionString: url, max: connections });
    const db = drizzle(pool);
    return {
      transaction: (work) =>
        db.transaction((tx) =>
          work({
            query: drizzled.drizzleQuery(tx),
            raiseFence: (id, fence) => drizzled.raiseFence(tx, id, fence),
            run: (text) => tx.execute(sql.raw(text)),
          }),
        ),
      sales: (locks) => new drizzled.DrizzleSale(locks, db),
      close: () => pool.end(),
    };
  },

  async MikroORM(url, connections) {
    const pool = { min: 0, max: connections };
    const orm = await MikroORM.init({ clientUrl: url, entities: [mikroOrm.GoodsSchema], pool });
    return {
      transaction: (work) =>
        orm.em.fork().transactional((em) =>
          work({
            query: mikroOrm.mikroOrmQuery(em),
            raiseFence: (id, fence) => mikroOrm.raiseFence(em, id, fence),
            run: (text) => em.execute(text, [], 'run'),
          }),
        ),
      sales: (locks) => new mikroOrm.MikroOrmSale(locks, orm.em),
      close: () => orm.close(),
    };
  },

  async Knex(url, connections) {
    const db = knex({ client: 'pg', connection: url, pool: { min: 0, max: connections } });
    return {
      transaction: (work) =>
        db.transaction((trx) =>
          work({
            query: knexed.knexQuery(trx),
            raiseFence: (id, fence) => knexed.raiseFence(trx, id, fence),
            run: async (text) => trx.raw(text),
          }),
        ),
      sales: (locks) => new knexed.KnexSale(locks, db),
      close: () => db.destroy(),
    };
  },
};
