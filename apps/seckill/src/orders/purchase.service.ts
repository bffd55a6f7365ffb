import { setTimeout as pause } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { AlreadyBought, SoldOut } from '../goods/goods.errors.js';
import { GoodsRepository } from '../goods/goods.repository.js';
import type { Order } from './order.js';
import { OrdersRepository, type OrderLine } from './orders.repository.js';

@Injectable()
export class PurchaseService {
  constructor(
    private readonly goods: GoodsRepository,
    private readonly orders: OrdersRepository,
  ) {}

  /**
   * Sells one item. Call it under the lock of the item, with its fencing token.
   *
   * @param payMs how long the payment takes
   * @throws GoodsNotFound, SoldOut, AlreadyBought, StaleFence
   */
  async purchase(goodsId: number, userId: string, fence: number, payMs = 0): Promise<Order> {
    const goods = await this.goods.findUnder(fence, goodsId);
    const [order] = await this.sell([{ goods, fence }], userId, payMs);
    return order!;
  }

  /** The same without any protection. Two buyers may read the same stock, and both be sold the last one. */
  async purchaseUnlocked(goodsId: number, userId: string, payMs = 0): Promise<Order> {
    const goods = await this.goods.find(goodsId);
    const [order] = await this.sell([{ goods, fence: goods.fence }], userId, payMs);
    return order!;
  }

  /**
   * Sells one of each item, or nothing. Call it under the locks of all of them.
   *
   * @param fences the token of each item by its id
   * @throws GoodsNotFound, SoldOut, AlreadyBought, StaleFence
   */
  async checkout(fences: ReadonlyMap<number, number>, userId: string, payMs = 0): Promise<readonly Order[]> {
    const found = await this.goods.findAllUnder(fences);
    return this.sell(
      found.map((goods) => ({ goods, fence: fences.get(goods.id)! })),
      userId,
      payMs,
    );
  }

  /** Reads, checks, writes. No other request may sell the item between the first and the last step. */
  private async sell(lines: readonly OrderLine[], userId: string, payMs: number): Promise<readonly Order[]> {
    for (const { goods } of lines) {
      if (goods.stock > 0) continue;
      // A buyer who asks again because the first response got lost must not be told that the item is sold out.
      const bought = await this.orders.has(goods.id, userId);
      throw bought ? new AlreadyBought(goods.name) : new SoldOut(goods.name);
    }
    if (payMs > 0) await pause(payMs);
    return this.orders.place(lines, userId);
  }
}
