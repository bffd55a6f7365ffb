import 'reflect-metadata';
import { Body, Controller, Module, Param, Post, UseGuards, UseInterceptors } from '@nestjs/common';
import { ModuleRef, NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { AppModule } from '../../../../dist/apps/seckill/app.module.js';
import { Buyer } from '../../../../dist/apps/seckill/buyer/buyer.decorator.js';
import { BuyerGuard } from '../../../../dist/apps/seckill/buyer/buyer.guard.js';
import { readConfig } from '../../../../dist/apps/seckill/config.js';
import { GoodsIdPipe } from '../../../../dist/apps/seckill/goods/goods-id.pipe.js';
import { GoodsRepository } from '../../../../dist/apps/seckill/goods/goods.repository.js';
import { PayMsPipe } from '../../../../dist/apps/seckill/orders/pay-ms.pipe.js';
import { PurchaseService } from '../../../../dist/apps/seckill/orders/purchase.service.js';
import { ContextInterceptor } from './context.interceptor.mjs';
import { decorateMethod } from './decorate.mjs';

const ENDLESS = 1_000_000;

/**
 * The purchase without `@Locked`, with the same statements. A counter gives its tokens.
 *
 * @param {string} route @param {MethodDecorator[]} intercepted
 */
function unlockedController(route, intercepted) {
  class UnlockedController {
    constructor(moduleRef) {
      this.moduleRef = moduleRef;
      this.fence = 0;
    }

    purchase(id, buyer, payMs) {
      this.purchases ??= this.moduleRef.get(PurchaseService, { strict: false });
      return this.purchases.purchase(id, buyer, ++this.fence, payMs);
    }
  }
  Reflect.defineMetadata('design:paramtypes', [ModuleRef], UnlockedController);
  decorateMethod(
    UnlockedController,
    'purchase',
    [Post(`:id/${route}`), ...intercepted],
    [Param('id', GoodsIdPipe), Buyer(), Body('payMs', PayMsPipe)],
  );
  Controller('goods')(UnlockedController);
  UseGuards(BuyerGuard)(UnlockedController);
  return UnlockedController;
}

/**
 * The flash sale with its embedded database.
 *
 * @param {{ redisUrl: string | undefined, items: number }} details without Redis locks are in memory
 * @returns {Promise<{ url: string, ids: number[] }>} with the ids of the items
 */
export async function startSale({ redisUrl, items }) {
  class SaleModule {}
  const sale = AppModule.register(readConfig({ REDIS_URL: redisUrl }));
  const controllers = [
    unlockedController('purchase-bare', []),
    unlockedController('purchase-context', [UseInterceptors(ContextInterceptor)]),
  ];
  Module({ imports: [sale], controllers })(SaleModule);
  const app = await NestFactory.create(SaleModule, new FastifyAdapter(), { logger: false });
  await app.listen(0, '127.0.0.1');
  const goods = app.get(GoodsRepository, { strict: false });
  const ids = [];
  for (let i = 0; i < items; i++) ids.push((await goods.add(`item ${i}`, ENDLESS)).id);
  return { url: await app.getUrl(), ids };
}
