import { Body, Controller, Param, Post, UseGuards } from '@nestjs/common';
import { Buyer } from '../buyer/buyer.decorator.js';
import { BuyerGuard } from '../buyer/buyer.guard.js';
import { GoodsIdPipe } from '../goods/goods-id.pipe.js';
import type { Order } from './order.js';
import { PayMsPipe } from './pay-ms.pipe.js';
import { PurchaseService } from './purchase.service.js';

/** Takes the place of `PurchaseController` with `LOCK=off`. */
@Controller('goods')
@UseGuards(BuyerGuard)
export class LockOffController {
  constructor(private readonly purchases: PurchaseService) {}

  @Post(':id/purchase')
  purchase(
    @Param('id', GoodsIdPipe) id: number,
    @Buyer() buyer: string,
    @Body('payMs', PayMsPipe) payMs: number,
  ): Promise<Order> {
    return this.purchases.purchaseUnlocked(id, buyer, payMs);
  }
}
