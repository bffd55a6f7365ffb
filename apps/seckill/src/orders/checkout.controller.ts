import { Body, Controller, Post, UseGuards } from '@nestjs/common';
import { CurrentLock, Locked, lockKey, type Lock } from 'nestjs-distributed-lock';
import { Buyer } from '../buyer/buyer.decorator.js';
import { BuyerGuard } from '../buyer/buyer.guard.js';
import { CartPipe, type CartItem } from './cart.pipe.js';
import type { Order } from './order.js';
import { PayMsPipe } from './pay-ms.pipe.js';
import { PurchaseService } from './purchase.service.js';

@Controller('checkout')
@UseGuards(BuyerGuard)
export class CheckoutController {
  constructor(private readonly purchases: PurchaseService) {}

  /**
   * Takes one of each item, or nothing, under the locks of all of them. They are taken in the same order whatever the
   * order of the cart, so carts that cross do not wait for each other. The buyer's lock keeps a second click out.
   */
  @Post()
  @Locked(['goods:<items[].id>', 'buyer:<user.id>'])
  checkout(
    @Body('items', CartPipe) items: readonly CartItem[],
    @Buyer() buyer: string,
    @Body('payMs', PayMsPipe) payMs: number,
    @CurrentLock() lock: Lock,
  ): Promise<readonly Order[]> {
    const fences = new Map(items.map(({ id }) => [id, lock.tokenOf(lockKey`goods:${id}`)]));
    return this.purchases.checkout(fences, buyer, payMs);
  }
}
