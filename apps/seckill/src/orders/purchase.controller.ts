import { Body, Controller, Param, Post, UseGuards } from '@nestjs/common';
import { CurrentLock, Locked, type Lock } from 'nestjs-distributed-lock';
import { Buyer } from '../buyer/buyer.decorator.js';
import { BuyerGuard } from '../buyer/buyer.guard.js';
import { GoodsIdPipe } from '../goods/goods-id.pipe.js';
import type { Order } from './order.js';
import { PayMsPipe } from './pay-ms.pipe.js';
import { PurchaseService } from './purchase.service.js';

@Controller('goods')
@UseGuards(BuyerGuard)
export class PurchaseController {
  constructor(private readonly purchases: PurchaseService) {}

  @Post(':id/purchase')
  @Locked('goods:<id>')
  purchase(
    @Param('id', GoodsIdPipe) id: number,
    @Buyer() buyer: string,
    @Body('payMs', PayMsPipe) payMs: number,
    @CurrentLock() lock: Lock,
  ): Promise<Order> {
    return this.purchases.purchase(id, buyer, lock.fencingToken, payMs);
  }
}
