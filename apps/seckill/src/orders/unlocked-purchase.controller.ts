import { Body, Controller, Param, Post, UseGuards } from '@nestjs/common';
import { Buyer } from '../buyer/buyer.decorator.js';
import { BuyerGuard } from '../buyer/buyer.guard.js';
import { GoodsIdPipe } from '../goods/goods-id.pipe.js';
import type { Order } from './order.js';
import { PayMsPipe } from './pay-ms.pipe.js';
import { PurchaseService } from './purchase.service.js';

/** Shows how a sale without the lock goes wrong: for the switch on the page. */
@Controller('goods')
@UseGuards(BuyerGuard)
export class UnlockedPurchaseController {
  constructor(private readonly purchases: PurchaseService) {}

  @Post(':id/purchase-without-lock')
  purchase(
    @Param('id', GoodsIdPipe) id: number,
    @Buyer() buyer: string,
    @Body('payMs', PayMsPipe) payMs: number,
  ): Promise<Order> {
    return this.purchases.purchaseUnlocked(id, buyer, payMs);
  }
}
