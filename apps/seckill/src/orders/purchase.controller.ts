import { Body, Controller, Param, Post, UseGuards } from '@nestjs/common';
import { ApiBody, ApiHeader, ApiParam, ApiTags } from '@nestjs/swagger';
import { CurrentLock, Locked, type Lock } from 'nestjs-distributed-lock';
import { Buyer } from '../buyer/buyer.decorator.js';
import { BuyerGuard } from '../buyer/buyer.guard.js';
import { GoodsIdPipe } from '../goods/goods-id.pipe.js';
import type { Order } from './order.js';
import { PayMsPipe } from './pay-ms.pipe.js';
import { PurchaseService } from './purchase.service.js';

@ApiTags('orders')
@Controller('goods')
@UseGuards(BuyerGuard)
export class PurchaseController {
  constructor(private readonly purchases: PurchaseService) {}

  @Post(':id/purchase')
  @ApiParam({ name: 'id', example: 1 })
  @ApiHeader({ name: 'x-user-id', example: 'ann' })
  @ApiBody({ required: false, schema: { example: { payMs: 20 } } })
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
