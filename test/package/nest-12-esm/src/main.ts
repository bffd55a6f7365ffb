import { Controller, Module, Param, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { setTimeout as pause } from 'node:timers/promises';
import { CurrentLock, DistributedLockModule, Locked, type Lock } from 'nestjs-distributed-lock';
import { fencingHeaders } from 'nestjs-distributed-lock/guard';

// No ioredis is installed here: neither the main entry point nor the guards need it.
@Controller('goods')
class GoodsController {
  @Post(':id/purchase')
  @Locked('goods:<id>', { waitMs: 0 })
  async purchase(@Param('id') id: string, @CurrentLock() lock: Lock): Promise<object> {
    await pause(500);
    return { id, token: lock.fencingToken, headers: fencingHeaders(lock) };
  }
}

@Module({ imports: [DistributedLockModule.forRoot()], controllers: [GoodsController] })
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: ['error', 'warn'] });
app.enableShutdownHooks();
await app.listen(0, '127.0.0.1');
console.log(`listens on ${await app.getUrl()}`);
