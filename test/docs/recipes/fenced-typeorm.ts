import { Injectable } from '@nestjs/common';
import { LockService, lockKey } from 'nestjs-distributed-lock';
import { FencedTable, heldUntilCommit, type SqlQuery } from 'nestjs-distributed-lock/guard';
import { Column, Entity, PrimaryColumn, DataSource, type EntityManager } from 'typeorm';

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

  // For sellGuarded: the guard alone writes it.
  @Column({ type: 'bigint', default: 0, select: false, insert: false, update: false })
  fence!: string;
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
        const fenced = new FencedTable(typeormQuery(manager), { table: 'goods' });
        await fenced.read({ id }, lock); // locks the row until the commit; throws StaleTokenError
        return takeOne(manager, id);
      }),
    );
  }
}

async function takeOne(manager: EntityManager, id: number): Promise<number> {
  const goods = await manager.findOneByOrFail(Goods, { id });
  if (goods.stock === 0) throw new Error('sold out'); // rolls back, the fence as well
  goods.stock -= 1;
  await manager.save(goods);
  return goods.stock;
}
