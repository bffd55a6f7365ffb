import { Body, Controller, Param, Post, UseGuards } from '@nestjs/common';
import { CurrentLock, Locked, type Lock } from 'nestjs-distributed-lock';
import { Buyer, BuyerGuard } from './buyer.guard.js';
import { CartPipe, type CartItem } from './cart.pipe.js';
import type { Order } from './orders.repository.js';
import { PurchaseService } from './purchase.service.js';
import { GoodsId, PayMs } from './whole-number.pipe.js';

@Controller()
@UseGuards(BuyerGuard)
export class PurchaseController {
  constructor(private readonly purchases: PurchaseService) {}

  /** One buyer at a time for each item, whichever instance the request arrives at. */
  @Post('goods/:id/purchase')
  @Locked('goods:<id>')
  async purchase(
    @Param('id', GoodsId) id: number,
    @Buyer() buyer: string,
    @Body('payMs', PayMs) payMs: number,
    @CurrentLock() lock: Lock,
  ): Promise<Order> {
    const [order] = await this.purchases.buy([id], buyer, lock, payMs);
    return order!;
  }

  /**
   * Sells one piece of each item, or nothing, under the locks of all of them. `@Locked` acquires the keys in the same
   * order whatever the order of the cart, so that carts which cross cannot deadlock. The lock of the buyer keeps a
   * second click out.
   */
  @Post('checkout')
  @Locked(['goods:<items[].id>', 'buyer:<user.id>'])
  checkout(
    @Body('items', CartPipe) items: readonly CartItem[],
    @Buyer() buyer: string,
    @Body('payMs', PayMs) payMs: number,
    @CurrentLock() lock: Lock,
  ): Promise<readonly Order[]> {
    const ids = items.map(({ id }) => id);
    return this.purchases.buy(ids, buyer, lock, payMs);
  }

  /** Shows how the sale goes wrong without the lock. */
  @Post('goods/:id/purchase-without-lock')
  async purchaseWithoutLock(
    @Param('id', GoodsId) id: number,
    @Buyer() buyer: string,
    @Body('payMs', PayMs) payMs: number,
  ): Promise<Order> {
    const [order] = await this.purchases.buyWithoutLock(id, buyer, payMs);
    return order!;
  }
}
