import { Injectable } from '@nestjs/common';
import { LockService, lockKey } from 'nestjs-distributed-lock';
import type { Goods } from './goods.js';
import { GoodsRepository } from './goods.repository.js';

@Injectable()
export class RestockService {
  constructor(
    private readonly locks: LockService,
    private readonly goods: GoodsRepository,
  ) {}

  /**
   * Adds to the stock, under the same lock as a purchase: `@Locked('goods:<id>')` makes the same key of the item's id.
   *
   * @throws GoodsNotFound, StaleFence
   */
  restock(id: number, amount: number): Promise<Goods> {
    return this.locks.withLock(lockKey`goods:${id}`, async (lock) => {
      const goods = await this.goods.findUnder(lock.fencingToken, id);
      return this.goods.saveStock(goods, amount, lock.fencingToken);
    });
  }
}
