import { Controller, Module, Param, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { setTimeout as pause } from 'node:timers/promises';
import { CurrentLock, DistributedLockModule, Locked, type Lock } from 'nestjs-distributed-lock';

// No ioredis is installed here: the main entry point must not need it.
@Controller('goods')
class GoodsController {
  @Post(':id/purchase')
  @Locked('goods:<id>', { waitMs: 0 })
  async purchase(@Param('id') id: string, @CurrentLock() lock: Lock): Promise<object> {
    await pause(500);
    return { id, token: lock.fencingToken };
  }
}

@Module({ imports: [DistributedLockModule.forRoot()], controllers: [GoodsController] })
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: ['error', 'warn'] });
app.enableShutdownHooks();
await app.listen(0, '127.0.0.1');
console.log(`listens on ${await app.getUrl()}`);
