import 'reflect-metadata';
import { Controller, Module, Param, ParseIntPipe, Post, UseInterceptors } from '@nestjs/common';
import { ModuleRef, NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { DistributedLockModule, Locked, LockService, memoryStore } from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { ContextInterceptor, NoopInterceptor } from './context.interceptor.mjs';
import { decorateMethod } from './decorate.mjs';

/** @param {string} route @param {MethodDecorator[]} locked */
function goodsController(route, locked) {
  class GoodsController {
    purchase(id) {
      return { id, sold: true };
    }
  }
  decorateMethod(
    GoodsController,
    'purchase',
    [Post(':id/purchase'), ...locked],
    [Param('id', new ParseIntPipe())],
  );
  Controller(`${route}/goods`)(GoodsController);
  return GoodsController;
}

/** The handler takes its lock itself. */
function withLockController() {
  class GoodsController {
    constructor(moduleRef) {
      this.moduleRef = moduleRef;
    }

    purchase(id) {
      this.locks ??= this.moduleRef.get(LockService, { strict: false });
      return this.locks.withLock(`goods:${id}`, () => ({ id, sold: true }));
    }
  }
  Reflect.defineMetadata('design:paramtypes', [ModuleRef], GoodsController);
  decorateMethod(GoodsController, 'purchase', [Post(':id/purchase')], [Param('id', new ParseIntPipe())]);
  Controller('with-lock/goods')(GoodsController);
  return GoodsController;
}

/** @param {string} redisUrl @returns {Promise<string>} where it listens */
export async function startApp(redisUrl) {
  class AppModule {}
  Module({
    imports: [
      DistributedLockModule.forRoot({ store: memoryStore() }),
      DistributedLockModule.forRoot({ name: 'redis', store: redisStore(redisUrl) }),
    ],
    controllers: [
      goodsController('bare', []),
      goodsController('noop', [UseInterceptors(NoopInterceptor)]),
      withLockController(),
      goodsController('context', [UseInterceptors(ContextInterceptor)]),
      goodsController('memory', [Locked('goods:<id>')]),
      goodsController('redis', [Locked('goods:<id>', { name: 'redis' })]),
    ],
  })(AppModule);
  const app = await NestFactory.create(AppModule, new FastifyAdapter(), { logger: false });
  await app.listen(0, '127.0.0.1');
  return app.getUrl();
}
