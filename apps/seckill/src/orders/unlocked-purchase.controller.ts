import { Controller, Param, Post, UseGuards } from '@nestjs/common';
import { Buyer } from '../buyer/buyer.decorator.js';
import { BuyerGuard } from '../buyer/buyer.guard.js';
import { GoodsIdPipe } from '../goods/goods-id.pipe.js';
import type { Order } from './order.js';
import { PurchaseService } from './purchase.service.js';

/** Takes the place of `PurchaseController` with `LOCK=off`, to show how a sale without the lock goes wrong. */
@Controller('goods')
@UseGuards(BuyerGuard)
export class UnlockedPurchaseController {
  constructor(private readonly purchases: PurchaseService) {}

  @Post(':id/purchase')
  purchase(@Param('id', GoodsIdPipe) id: number, @Buyer() buyer: string): Promise<Order> {
    return this.purchases.purchaseUnlocked(id, buyer);
  }
}
