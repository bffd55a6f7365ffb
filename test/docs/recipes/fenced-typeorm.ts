import { Injectable } from '@nestjs/common';
import { LockService, lockKey } from 'nestjs-distributed-lock';
import { heldUntilCommit, StaleTokenError, type Fence, type SqlQuery } from 'nestjs-distributed-lock/guard';
import { Column, Entity, LessThanOrEqual, PrimaryColumn, DataSource, type EntityManager } from 'typeorm';

// The manager that transaction() hands out: any other takes a connection of its own.
export const typeormQuery =
  ({ queryRunner }: EntityManager): SqlQuery =>
  async (sql, parameters) => {
    if (!queryRunner) throw new Error('typeormQuery needs the manager of a transaction');
    return (await queryRunner.query(sql, parameters, true)).records;
  };

@Entity('goods')
export class Goods {
  @PrimaryColumn('int')
  id!: number;

  @Column('int')
  stock!: number;

  @Column({ type: 'bigint', default: 0 })
  fence!: string; // for sellGuarded
}

@Injectable()
export class TypeormSale {
  constructor(
    private readonly locks: LockService,
    private readonly source: DataSource,
  ) {}

  /** Held until the commit: with the locks in this database. */
  sellHeld(id: number): Promise<number> {
    return this.locks.withLock(lockKey`goods:${id}`, (lock) =>
      this.source.transaction(async (manager) => {
        const left = await takeOne(manager, id);
        await heldUntilCommit(typeormQuery(manager), lock); // the last statement
        return left;
      }),
    );
  }

  /** Guarded: with the locks anywhere, and a fence in the table. */
  sellGuarded(id: number): Promise<number> {
    return this.locks.withLock(lockKey`goods:${id}`, (lock) =>
      this.source.transaction(async (manager) => {
        await raiseFence(manager, id, lock); // the first statement
        return takeOne(manager, id);
      }),
    );
  }
}

/** Locks the row until the commit. From then on it refuses all earlier holders. */
export async function raiseFence(
  manager: EntityManager,
  id: number,
  { key, fencingToken }: Fence,
): Promise<void> {
  const fence = String(fencingToken);
  const { affected } = await manager.update(Goods, { id, fence: LessThanOrEqual(fence) }, { fence });
  if (affected === 1) return;
  const goods = await manager.findOneByOrFail(Goods, { id }); // or there is no such row
  throw new StaleTokenError(key, fencingToken, Number(goods.fence));
}

async function takeOne(manager: EntityManager, id: number): Promise<number> {
  const goods = await manager.findOneByOrFail(Goods, { id });
  if (goods.stock === 0) throw new Error('sold out'); // rolls back, the fence as well
  goods.stock -= 1;
  await manager.save(goods);
  return goods.stock;
}
