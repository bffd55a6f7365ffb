import type { Knex } from 'knex';
import { LockService, lockKey } from 'nestjs-distributed-lock';
import {
  heldUntilCommit,
  StaleTokenError,
  type Fence,
  type SqlQuery,
  type SqlRow,
} from 'nestjs-distributed-lock/guard';

// Knex writes ? for a parameter.
export const knexQuery =
  (trx: Knex.Transaction): SqlQuery =>
  async (sql, parameters) => {
    const text = sql.replaceAll(/\$\d+/g, '?');
    return trx.raw<{ rows: SqlRow[] }>(text, parameters as Knex.Value[]);
  };

interface Goods {
  id: number;
  stock: number;
  fence: string | number;
}

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
        await raiseFence(trx, id, lock);
        return takeOne(trx, id);
      }),
    );
  }
}

export async function raiseFence(
  trx: Knex.Transaction,
  id: number,
  { key, fencingToken }: Fence,
): Promise<void> {
  const row = trx<Goods>('goods').where({ id });
  const updated = await row.clone().where('fence', '<=', fencingToken).update({ fence: fencingToken });
  if (updated === 1) return;
  const goods = await row.first();
  if (!goods) throw new Error(`There is no item ${id}`);
  throw new StaleTokenError(key, fencingToken, Number(goods.fence));
}

async function takeOne(trx: Knex.Transaction, id: number): Promise<number> {
  const goods = await trx<Goods>('goods').where({ id }).first();
  if (!goods?.stock) throw new Error('sold out');
  const stock = goods.stock - 1;
  await trx('goods').where({ id }).update({ stock });
  return stock;
}
