import { BadRequestException, Body, Controller, Get, Param, Post } from '@nestjs/common';
import { GoodsRepository, type Goods } from './goods.repository.js';
import { OrdersRepository, type Order } from './orders.repository.js';
import { RestockService } from './restock.service.js';
import { GoodsId, WholeNumberPipe } from './whole-number.pipe.js';

const MAX_STOCK = 1_000_000;

@Controller('goods')
export class GoodsController {
  constructor(
    private readonly goods: GoodsRepository,
    private readonly orders: OrdersRepository,
    private readonly restocking: RestockService,
  ) {}

  @Get()
  all(): Promise<readonly Goods[]> {
    return this.goods.all();
  }

  @Get(':id')
  find(@Param('id', GoodsId) id: number): Promise<Goods> {
    return this.goods.find(id);
  }

  @Get(':id/orders')
  ordersOf(@Param('id', GoodsId) id: number): Promise<readonly Order[]> {
    return this.orders.of(id);
  }

  @Post()
  add(
    @Body('name') name: unknown,
    @Body('stock', new WholeNumberPipe({ min: 0, max: MAX_STOCK })) stock: number,
  ): Promise<Goods> {
    if (typeof name !== 'string' || !/^\P{C}{1,100}$/u.test(name)) {
      throw new BadRequestException('name must be a text of 1 to 100 visible characters.');
    }
    return this.goods.add(name, stock);
  }

  @Post(':id/restock')
  restock(
    @Param('id', GoodsId) id: number,
    @Body('amount', new WholeNumberPipe({ min: 1, max: MAX_STOCK })) amount: number,
  ): Promise<Goods> {
    return this.restocking.restock(id, amount);
  }
}
