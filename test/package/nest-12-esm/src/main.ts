import { Controller, Module, Param, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { setTimeout as pause } from 'node:timers/promises';
import { CurrentLock, DistributedLockModule, Locked, type Lock } from 'nestjs-distributed-lock';
import { fencingHeaders } from 'nestjs-distributed-lock/guard';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { createClient } from 'redis';

// No ioredis is installed here: with a client of node-redis nothing needs it.
const store = redisStore(createClient({ url: process.env['REDIS_URL'] ?? 'redis://localhost:6379' }));

@Controller('goods')
class GoodsController {
  @Post(':id/purchase')
  @Locked('goods:<id>', { waitMs: 0 })
  async purchase(@Param('id') id: string, @CurrentLock() lock: Lock): Promise<object> {
    await pause(500);
    return { id, token: lock.fencingToken, headers: fencingHeaders(lock) };
  }
}

@Module({ imports: [DistributedLockModule.forRoot({ store })], controllers: [GoodsController] })
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: ['error', 'warn'] });
app.enableShutdownHooks();
await app.listen(0, '127.0.0.1');
console.log(`listens on ${await app.getUrl()}`);
