import { LockService, lockKey } from 'nestjs-distributed-lock';
import { FencedTable, type SqlQuery } from 'nestjs-distributed-lock/guard';

export class Sale {
  private readonly goods: FencedTable;

  constructor(
    private readonly locks: LockService,
    query: SqlQuery,
  ) {
    this.goods = new FencedTable(query, { table: 'goods' });
  }

  sellOne(id: number): Promise<number> {
    return this.locks.withLock(lockKey`goods:${id}`, async (lock) => {
      const { rows } = await this.goods.read({ id }, lock); // from now on all earlier holders are refused
      const stock = Number(rows[0]?.['stock'] ?? 0);
      if (stock === 0) throw new Error('sold out');
      await this.goods.update({ where: { id }, set: { stock: stock - 1 } }, lock); // throws StaleTokenError
      return stock - 1;
    });
  }
}
