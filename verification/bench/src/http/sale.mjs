import 'reflect-metadata';
import { Body, Controller, Module, Param, Post, UseGuards, UseInterceptors } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { memoryStore } from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { AppModule } from '../../../../dist/apps/seckill/app.module.js';
import { Database } from '../../../../dist/apps/seckill/database.js';
import { Buyer, BuyerGuard } from '../../../../dist/apps/seckill/shop/buyer.guard.js';
import { GoodsRepository } from '../../../../dist/apps/seckill/shop/goods.repository.js';
import { PurchaseService } from '../../../../dist/apps/seckill/shop/purchase.service.js';
import { GoodsId, PayMs } from '../../../../dist/apps/seckill/shop/whole-number.pipe.js';
import { ContextInterceptor } from './context.interceptor.mjs';
import { decorateMethod } from './decorate.mjs';
import { openEmbeddedDatabase } from './embedded-database.mjs';

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

    async purchase(id, buyer, payMs) {
      this.purchases ??= this.moduleRef.get(PurchaseService, { strict: false });
      const fence = ++this.fence;
      const [order] = await this.purchases.buy([id], buyer, { tokenOf: () => fence, assertHeld() {} }, payMs);
      return order;
    }
  }
  Reflect.defineMetadata('design:paramtypes', [ModuleRef], UnlockedController);
  decorateMethod(
    UnlockedController,
    'purchase',
    [Post(`:id/${route}`), ...intercepted],
    [Param('id', GoodsId), Buyer(), Body('payMs', PayMs)],
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
  const store = redisUrl ? redisStore(redisUrl) : memoryStore();
  const sale = AppModule.register({ store });
  const controllers = [
    unlockedController('purchase-bare', []),
    unlockedController('purchase-context', [UseInterceptors(ContextInterceptor)]),
  ];
  Module({ imports: [sale], controllers })(SaleModule);
  const module = await Test.createTestingModule({ imports: [SaleModule] })
    .overrideProvider(Database)
    .useValue(await openEmbeddedDatabase())
    .compile();
  const app = module.createNestApplication(new FastifyAdapter(), { logger: false });
  await app.listen(0, '127.0.0.1');
  const goods = app.get(GoodsRepository, { strict: false });
  const ids = [];
  for (let i = 0; i < items; i++) ids.push((await goods.add(`item ${i}`, ENDLESS)).id);
  return { url: await app.getUrl(), ids };
}
