import { Injectable } from '@nestjs/common';
import { AlreadyBought, SoldOut } from '../goods/goods.errors.js';
import type { Goods } from '../goods/goods.js';
import { GoodsRepository } from '../goods/goods.repository.js';
import type { Order } from './order.js';
import { OrdersRepository } from './orders.repository.js';

@Injectable()
export class PurchaseService {
  constructor(
    private readonly goods: GoodsRepository,
    private readonly orders: OrdersRepository,
  ) {}

  /**
   * Sells one item. Call it under the lock of the item, with its fencing token.
   *
   * @throws GoodsNotFound, SoldOut, AlreadyBought, StaleFence
   */
  async purchase(goodsId: number, userId: string, fence: number): Promise<Order> {
    return this.sell(await this.goods.findUnder(fence, goodsId), userId, fence);
  }

  /** The same without any protection. Two buyers may read the same stock, and both be sold the last one. */
  async purchaseUnlocked(goodsId: number, userId: string): Promise<Order> {
    const goods = await this.goods.find(goodsId);
    return this.sell(goods, userId, goods.fence);
  }

  /** Read, check, write: between the first and the last of them nobody else may sell. */
  private async sell(goods: Goods, userId: string, fence: number): Promise<Order> {
    if (goods.stock <= 0) {
      // A buyer who asks again because the first answer got lost must not hear that there is nothing left.
      const bought = await this.orders.has(goods.id, userId);
      throw bought ? new AlreadyBought(goods.name) : new SoldOut(goods.name);
    }
    return this.orders.place(goods, goods.stock - 1, fence, userId);
  }
}
