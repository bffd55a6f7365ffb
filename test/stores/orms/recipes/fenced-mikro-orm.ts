import { EntitySchema, type SqlEntityManager } from '@mikro-orm/postgresql';
import { LockService, lockKey } from 'nestjs-distributed-lock';
import {
  heldUntilCommit,
  StaleTokenError,
  type Fence,
  type SqlQuery,
  type SqlRow,
} from 'nestjs-distributed-lock/guard';

// The em that transactional() hands out. MikroORM writes ? for a parameter.
export const mikroOrmQuery =
  (em: SqlEntityManager): SqlQuery =>
  (sql, parameters) => {
    if (!em.isInTransaction()) throw new Error('mikroOrmQuery needs the em of a transaction');
    return em.execute<SqlRow[]>(sql.replaceAll(/\$\d+/g, '?'), parameters);
  };

export class Goods {
  id!: number;
  stock!: number;
  fence!: bigint;
}

export const GoodsSchema = new EntitySchema<Goods>({
  class: Goods,
  tableName: 'goods',
  properties: {
    id: { type: 'integer', primary: true },
    stock: { type: 'integer' },
    fence: { type: 'bigint', default: 0 },
  },
});

export class MikroOrmSale {
  constructor(
    private readonly locks: LockService,
    private readonly em: SqlEntityManager,
  ) {}

  sellHeld(id: number): Promise<number> {
    return this.locks.withLock(lockKey`goods:${id}`, (lock) =>
      this.em.fork().transactional(async (em) => {
        const left = await takeOne(em, id);
        await heldUntilCommit(mikroOrmQuery(em), lock);
        return left;
      }),
    );
  }

  sellGuarded(id: number): Promise<number> {
    return this.locks.withLock(lockKey`goods:${id}`, (lock) =>
      this.em.fork().transactional(async (em) => {
        await raiseFence(em, id, lock);
        return takeOne(em, id);
      }),
    );
  }
}

export async function raiseFence(
  em: SqlEntityManager,
  id: number,
  { key, fencingToken }: Fence,
): Promise<void> {
  const fence = BigInt(fencingToken);
  const updated = await em.nativeUpdate(Goods, { id, fence: { $lte: fence } }, { fence });
  if (updated === 1) return;
  const goods = await em.findOneOrFail(Goods, { id });
  throw new StaleTokenError(key, fencingToken, Number(goods.fence));
}

async function takeOne(em: SqlEntityManager, id: number): Promise<number> {
  const goods = await em.findOneOrFail(Goods, { id });
  if (goods.stock === 0) throw new Error('sold out');
  goods.stock -= 1;
  await em.flush(); // writes it now: otherwise MikroORM writes it at the end of the transaction
  return goods.stock;
}
