import { Controller, Get, Query } from '@nestjs/common';
import { GoodsIdPipe } from '../goods/goods-id.pipe.js';
import type { Order } from './order.js';
import { OrdersRepository } from './orders.repository.js';

@Controller('orders')
export class OrdersController {
  constructor(private readonly orders: OrdersRepository) {}

  @Get()
  of(@Query('goodsId', GoodsIdPipe) goodsId: number): Promise<readonly Order[]> {
    return this.orders.of(goodsId);
  }
}
