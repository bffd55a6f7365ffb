import { Body, Controller, Get, Param, Post } from '@nestjs/common';
import { GoodsIdPipe } from './goods-id.pipe.js';
import { goodsName, wholeNumber } from './goods.input.js';
import type { Goods } from './goods.js';
import { GoodsRepository } from './goods.repository.js';
import { RestockService } from './restock.service.js';

@Controller('goods')
export class GoodsController {
  constructor(
    private readonly goods: GoodsRepository,
    private readonly restocking: RestockService,
  ) {}

  @Get()
  all(): Promise<readonly Goods[]> {
    return this.goods.all();
  }

  @Get(':id')
  find(@Param('id', GoodsIdPipe) id: number): Promise<Goods> {
    return this.goods.find(id);
  }

  @Post()
  add(@Body('name') name: unknown, @Body('stock') stock: unknown): Promise<Goods> {
    return this.goods.add(goodsName(name), wholeNumber('stock', stock, 0));
  }

  @Post(':id/restock')
  restock(@Param('id', GoodsIdPipe) id: number, @Body('amount') amount: unknown): Promise<Goods> {
    return this.restocking.restock(id, wholeNumber('amount', amount, 1));
  }
}
