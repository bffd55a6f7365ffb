import { Controller, Module, Param, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { setTimeout as pause } from 'node:timers/promises';
import { CurrentLock, DistributedLockModule, Locked, type Lock } from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';

@Controller('goods')
class GoodsController {
  @Post(':id/purchase')
  @Locked('goods:<id>', { waitMs: 0 })
  async purchase(@Param('id') id: string, @CurrentLock() lock: Lock): Promise<object> {
    await pause(500);
    return { id, token: lock.fencingToken };
  }
}

@Module({
  imports: [DistributedLockModule.forRoot({ store: redisStore(process.env['REDIS_URL']!) })],
  controllers: [GoodsController],
})
class AppModule {}

async function main(): Promise<void> {
  const app = await NestFactory.create(AppModule, { logger: ['error', 'warn'] });
  app.enableShutdownHooks();
  await app.listen(0, '127.0.0.1');
  console.log(`listens on ${await app.getUrl()}`);
}

void main();
