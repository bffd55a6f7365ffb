import { CompiledQuery, type Kysely, type Transaction } from 'kysely';
import { LockService, lockKey } from 'nestjs-distributed-lock';
import {
  heldUntilCommit,
  StaleTokenError,
  type Fence,
  type SqlQuery,
  type SqlRow,
} from 'nestjs-distributed-lock/guard';

export const kyselyQuery =
  <Tables>(trx: Transaction<Tables>): SqlQuery =>
  (sql, parameters) =>
    trx.executeQuery<SqlRow>(CompiledQuery.raw(sql, parameters));

export interface Tables {
  readonly goods: { id: number; stock: number; fence: string };
}

export class KyselySale {
  constructor(
    private readonly locks: LockService,
    private readonly db: Kysely<Tables>,
  ) {}

  sellHeld(id: number): Promise<number> {
    return this.locks.withLock(lockKey`goods:${id}`, (lock) =>
      this.db.transaction().execute(async (trx) => {
        const left = await takeOne(trx, id);
        await heldUntilCommit(kyselyQuery(trx), lock);
        return left;
      }),
    );
  }

  sellGuarded(id: number): Promise<number> {
    return this.locks.withLock(lockKey`goods:${id}`, (lock) =>
      this.db.transaction().execute(async (trx) => {
        await raiseFence(trx, id, lock);
        return takeOne(trx, id);
      }),
    );
  }
}

export async function raiseFence(
  trx: Transaction<Tables>,
  id: number,
  { key, fencingToken }: Fence,
): Promise<void> {
  const fence = String(fencingToken);
  const row = trx.updateTable('goods').where('id', '=', id);
  const { numUpdatedRows } = await row.where('fence', '<=', fence).set({ fence }).executeTakeFirstOrThrow();
  if (numUpdatedRows === 1n) return;
  const found = trx.selectFrom('goods').where('id', '=', id).select('fence');
  const goods = await found.executeTakeFirstOrThrow();
  throw new StaleTokenError(key, fencingToken, Number(goods.fence));
}

async function takeOne(trx: Transaction<Tables>, id: number): Promise<number> {
  const goods = await trx.selectFrom('goods').where('id', '=', id).select('stock').executeTakeFirst();
  if (!goods?.stock) throw new Error('sold out');
  const stock = goods.stock - 1;
  await trx.updateTable('goods').set({ stock }).where('id', '=', id).execute();
  return stock;
}
