import type { Knex } from 'knex';
import { LockService, lockKey } from 'nestjs-distributed-lock';
import { FencedTable, heldUntilCommit, type SqlQuery, type SqlRow } from 'nestjs-distributed-lock/guard';

// Knex writes ? for a parameter.
export const knexQuery =
  (trx: Knex.Transaction): SqlQuery =>
  async (sql, parameters) => {
    const text = sql.replaceAll(/\$\d+/g, '?');
    return trx.raw<{ rows: SqlRow[] }>(text, parameters as Knex.Value[]);
  };

export class KnexSale {
  constructor(
    private readonly locks: LockService,
    private readonly knex: Knex,
  ) {}

  sellHeld(id: number): Promise<number> {
    return this.locks.withLock(lockKey`goods:${id}`, (lock) =>
      this.knex.transaction(async (trx) => {
        const left = await takeOne(trx, id);
        await heldUntilCommit(knexQuery(trx), lock);
        return left;
      }),
    );
  }

  sellGuarded(id: number): Promise<number> {
    return this.locks.withLock(lockKey`goods:${id}`, (lock) =>
      this.knex.transaction(async (trx) => {
        await new FencedTable(knexQuery(trx), { table: 'goods' }).read({ id }, lock);
        return takeOne(trx, id);
      }),
    );
  }
}

async function takeOne(trx: Knex.Transaction, id: number): Promise<number> {
  const goods = await trx<{ id: number; stock: number }>('goods').where({ id }).first();
  if (!goods?.stock) throw new Error('sold out');
  const stock = goods.stock - 1;
  await trx('goods').where({ id }).update({ stock });
  return stock;
}
