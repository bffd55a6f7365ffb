import { Controller, Get, Query } from '@nestjs/common';
import { ApiQuery, ApiTags } from '@nestjs/swagger';
import { GoodsIdPipe } from '../goods/goods-id.pipe.js';
import type { Order } from './order.js';
import { OrdersRepository } from './orders.repository.js';

@ApiTags('orders')
@Controller('orders')
export class OrdersController {
  constructor(private readonly orders: OrdersRepository) {}

  @Get()
  @ApiQuery({ name: 'goodsId', example: 1 })
  of(@Query('goodsId', GoodsIdPipe) goodsId: number): Promise<readonly Order[]> {
    return this.orders.of(goodsId);
  }
}
