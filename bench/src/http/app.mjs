import 'reflect-metadata';
import { AsyncLocalStorage } from 'node:async_hooks';
import { Controller, Module, Param, ParseIntPipe, Post, UseInterceptors } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { DistributedLockModule, Locked, memoryStore } from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { Observable } from 'rxjs';
import { decorateMethod } from './decorate.mjs';

const storage = new AsyncLocalStorage();

/** The least that a lock around a handler costs if nested calls must find it: an interceptor with an AsyncLocalStorage. */
class LeastInterceptor {
  intercept(_context, next) {
    return new Observable((observer) => storage.run({}, () => next.handle().subscribe(observer)));
  }
}

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
      goodsController('least', [UseInterceptors(LeastInterceptor)]),
      goodsController('memory', [Locked('goods:<id>')]),
      goodsController('redis', [Locked('goods:<id>', { service: 'redis' })]),
    ],
  })(AppModule);
  const app = await NestFactory.create(AppModule, new FastifyAdapter(), { logger: false });
  await app.listen(0, '127.0.0.1');
  return app.getUrl();
}
