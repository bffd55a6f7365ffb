import { Controller, Get, Module, Param, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { WsAdapter } from '@nestjs/platform-ws';
import { HealthCheck, HealthCheckService, TerminusModule } from '@nestjs/terminus';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { setTimeout as pause } from 'node:timers/promises';
import { CurrentLock, DistributedLockModule, Locked, type Lock } from 'nestjs-distributed-lock';
import { LockHealthIndicator } from 'nestjs-distributed-lock/health';
import { LockMetricsModule, LockTracingModule } from 'nestjs-distributed-lock/otel';
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

@WebSocketGateway()
class GoodsGateway {
  @SubscribeMessage('purchase')
  @Locked('goods:<id>', { waitMs: 0 })
  async purchase(@MessageBody('id') id: string, @CurrentLock() lock: Lock): Promise<object> {
    await pause(500);
    return { event: 'purchased', data: { id, token: lock.fencingToken } };
  }
}

@Controller('ready')
class ReadyController {
  constructor(
    private readonly health: HealthCheckService,
    private readonly locks: LockHealthIndicator,
  ) {}

  @Get()
  @HealthCheck()
  check() {
    return this.health.check([() => this.locks.check()]);
  }
}

@Module({
  imports: [
    DistributedLockModule.forRoot({ store: redisStore(process.env['REDIS_URL']!) }),
    LockMetricsModule.forRoot(),
    LockTracingModule.forRoot(),
    TerminusModule,
  ],
  controllers: [GoodsController, ReadyController],
  providers: [GoodsGateway, LockHealthIndicator],
})
class AppModule {}

async function main(): Promise<void> {
  const app = await NestFactory.create(AppModule, { logger: ['error', 'warn'] });
  app.enableShutdownHooks();
  app.useWebSocketAdapter(new WsAdapter(app));
  await app.listen(0, '127.0.0.1');
  console.log(`listens on ${await app.getUrl()}`);
}

void main();
