import { MikroORM } from '@mikro-orm/postgresql';
import { PrismaPg } from '@prisma/adapter-pg';
import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import knex from 'knex';
import { CompiledQuery, Kysely, PostgresDialect } from 'kysely';
import type { PostgresHandle } from 'nestjs-distributed-lock/postgres';
import pg from 'pg';
import { DataSource } from 'typeorm';
import { GoodsSchema } from './recipes/fenced-mikro-orm.js';
import { PrismaClient } from './recipes/generated/prisma/client.js';

type Query = PostgresHandle['query'];

interface OpenHandle {
  readonly handle: PostgresHandle;
  close(): Promise<unknown>;
}

/** An ORM as a handle for `postgresStore`: one function that runs one statement. */
export const openHandles: Readonly<Record<string, (url: string) => Promise<OpenHandle>>> = {
  async pg(url) {
    const pool = new pg.Pool({ connectionString: url });
    const query: Query = (text, parameters) => pool.query<object>(text, parameters);
    return { handle: { query }, close: () => pool.end() };
  },

  async TypeORM(url) {
    const dataSource = await new DataSource({ type: 'postgres', url }).initialize();
    const query: Query = (text, parameters) => dataSource.query<object[]>(text, parameters);
    return { handle: { query }, close: () => dataSource.destroy() };
  },

  async Prisma(url) {
    const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: url }) });
    const query: Query = (text, parameters) => prisma.$queryRawUnsafe<object[]>(text, ...parameters);
    return { handle: { query }, close: () => prisma.$disconnect() };
  },

  async Drizzle(url) {
    const pool = new pg.Pool({ connectionString: url });
    const db = drizzle(pool);
    // Drizzle numbers the parameters itself.
    const query: Query = (text, parameters) => {
      const [start = '', ...rest] = text.split(/\$\d+/).map((part) => sql.raw(part));
      return db.execute(sql.join([start, ...rest.flatMap((part, i) => [sql.param(parameters[i]), part])]));
    };
    return { handle: { query }, close: () => pool.end() };
  },

  async Kysely(url) {
    const pool = new pg.Pool({ connectionString: url });
    const kysely = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) });
    const query: Query = (text, parameters) =>
      kysely.executeQuery<object>(CompiledQuery.raw(text, parameters));
    return { handle: { query }, close: () => kysely.destroy() };
  },

  async Knex(url) {
    const db = knex({ client: 'pg', connection: url });
    // Knex writes ? for a parameter.
    const query: Query = async (text, parameters) =>
      db.raw<{ rows: object[] }>(text.replaceAll(/\$\d+/g, '?'), parameters as knex.Knex.Value[]);
    return { handle: { query }, close: () => db.destroy() };
  },

  async MikroORM(url) {
    const orm = await MikroORM.init({ clientUrl: url, entities: [GoodsSchema] });
    // MikroORM writes ? for a parameter.
    const query: Query = (text, parameters) =>
      orm.em.getConnection().execute<object[]>(text.replaceAll(/\$\d+/g, '?'), parameters);
    return { handle: { query }, close: () => orm.close() };
  },
};
