import { Injectable } from '@nestjs/common';
import { LockService, lockKey } from 'nestjs-distributed-lock';
import { GoodsRepository, type Goods } from './goods.repository.js';

@Injectable()
export class RestockService {
  constructor(
    private readonly locks: LockService,
    private readonly goods: GoodsRepository,
  ) {}

  /**
   * Adds to the stock, under the same lock as a purchase: `@Locked('goods:<id>')` makes the same key of the item's id.
   *
   * @throws GoodsNotFoundError, StaleTokenError
   */
  restock(id: number, amount: number): Promise<Goods> {
    return this.locks.withLock(lockKey`goods:${id}`, async (lock) => {
      const goods = await this.goods.findUnder(lock.fencingToken, id);
      return this.goods.addStock(goods, amount, lock.fencingToken);
    });
  }

  /** Starts the sale anew, under the locks of all items, so that no purchase sees half of it. */
  async reset(): Promise<void> {
    const ids = (await this.goods.all()).map(({ id }) => id);
    const keyOf = (id: number) => lockKey`goods:${id}`;
    await this.locks.withLock(ids.map(keyOf), async (lock) => {
      for (const id of ids) await this.goods.reset(id, lock.tokenOf(keyOf(id)));
    });
  }
}
