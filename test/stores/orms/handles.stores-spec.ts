import { expect, it } from '@jest/globals';
import { MikroORM } from '@mikro-orm/postgresql';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import type { Knex } from 'knex';
import type { Kysely } from 'kysely';
import { kyselyQuery } from '../../docs/recipes/fenced-kysely.js';
import { drizzleQuery } from './recipes/fenced-drizzle.js';
import { knexQuery } from './recipes/fenced-knex.js';
import { GoodsSchema, mikroOrmQuery } from './recipes/fenced-mikro-orm.js';
import { prismaQuery } from './recipes/fenced-prisma.js';
import type { PrismaClient } from './recipes/generated/prisma/client.js';

it('what takes connections of its own is refused by the compiler', () => {
  const wrong = [
    // @ts-expect-error -- not a transaction
    (kysely: Kysely<unknown>) => kyselyQuery(kysely),
    // @ts-expect-error -- not a transaction
    (drizzle: NodePgDatabase) => drizzleQuery(drizzle),
    // @ts-expect-error -- not a transaction
    (knex: Knex) => knexQuery(knex),
    // @ts-expect-error -- not a transaction
    (prisma: PrismaClient) => prismaQuery(prisma),
  ];
  expect(wrong).toHaveLength(4);
});

it('MikroORM, whose em is one type in and out of a transaction, is refused when the statement comes', async () => {
  const orm = await MikroORM.init({ dbName: 'none', entities: [GoodsSchema], connect: false });
  expect(() => mikroOrmQuery(orm.em.fork())('SELECT 1', [])).toThrow('the em of a transaction');
  await orm.close();
});
