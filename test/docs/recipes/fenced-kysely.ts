import { CompiledQuery, type Kysely, type Transaction } from 'kysely';
import { LockService, lockKey } from 'nestjs-distributed-lock';
import { FencedTable, heldUntilCommit, type SqlQuery, type SqlRow } from 'nestjs-distributed-lock/guard';

export const kyselyQuery =
  <Tables>(trx: Transaction<Tables>): SqlQuery =>
  (sql, parameters) =>
    trx.executeQuery<SqlRow>(CompiledQuery.raw(sql, parameters));

interface Tables {
  readonly goods: { id: number; stock: number };
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
        await new FencedTable(kyselyQuery(trx), { table: 'goods' }).read({ id }, lock);
        return takeOne(trx, id);
      }),
    );
  }
}

async function takeOne(trx: Transaction<Tables>, id: number): Promise<number> {
  const goods = await trx.selectFrom('goods').where('id', '=', id).select('stock').executeTakeFirst();
  if (!goods?.stock) throw new Error('sold out');
  const stock = goods.stock - 1;
  await trx.updateTable('goods').set({ stock }).where('id', '=', id).execute();
  return stock;
}
