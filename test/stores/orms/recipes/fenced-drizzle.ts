import { and, eq, lte, sql } from 'drizzle-orm';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import { bigint, integer, pgTable } from 'drizzle-orm/pg-core';
import { LockService, lockKey } from 'nestjs-distributed-lock';
import {
  heldUntilCommit,
  StaleTokenError,
  type Fence,
  type SqlQuery,
  type SqlRow,
} from 'nestjs-distributed-lock/guard';

type Transaction = Parameters<Parameters<NodePgDatabase['transaction']>[0]>[0];

// Drizzle numbers the parameters itself.
export const drizzleQuery =
  (tx: Transaction): SqlQuery =>
  (text, parameters) => {
    const [start = '', ...rest] = text.split(/\$\d+/).map((part) => sql.raw(part));
    const parts = rest.flatMap((part, i) => [sql.param(parameters[i]), part]);
    return tx.execute<SqlRow>(sql.join([start, ...parts]));
  };

export const goods = pgTable('goods', {
  id: integer().primaryKey(),
  stock: integer().notNull(),
  fence: bigint({ mode: 'number' }).notNull().default(0),
});

export class DrizzleSale {
  constructor(
    private readonly locks: LockService,
    private readonly db: NodePgDatabase,
  ) {}

  sellHeld(id: number): Promise<number> {
    return this.locks.withLock(lockKey`goods:${id}`, (lock) =>
      this.db.transaction(async (tx) => {
        const left = await takeOne(tx, id);
        await heldUntilCommit(drizzleQuery(tx), lock);
        return left;
      }),
    );
  }

  sellGuarded(id: number): Promise<number> {
    return this.locks.withLock(lockKey`goods:${id}`, (lock) =>
      this.db.transaction(async (tx) => {
        await raiseFence(tx, id, lock);
        return takeOne(tx, id);
      }),
    );
  }
}

export async function raiseFence(tx: Transaction, id: number, { key, fencingToken }: Fence): Promise<void> {
  const isFresh = and(eq(goods.id, id), lte(goods.fence, fencingToken));
  const { rowCount } = await tx.update(goods).set({ fence: fencingToken }).where(isFresh);
  if (rowCount === 1) return;
  const [found] = await tx.select({ fence: goods.fence }).from(goods).where(eq(goods.id, id));
  if (!found) throw new Error(`There is no item ${id}`);
  throw new StaleTokenError(key, fencingToken, found.fence);
}

async function takeOne(tx: Transaction, id: number): Promise<number> {
  const [found] = await tx.select({ stock: goods.stock }).from(goods).where(eq(goods.id, id));
  if (!found?.stock) throw new Error('sold out');
  const stock = found.stock - 1;
  await tx.update(goods).set({ stock }).where(eq(goods.id, id));
  return stock;
}
