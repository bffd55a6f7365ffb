import { Controller, Get, Module } from '@nestjs/common';
import { HealthCheck, HealthCheckService, TerminusModule } from '@nestjs/terminus';
import { DistributedLockModule } from 'nestjs-distributed-lock';
import { LockHealthIndicator } from 'nestjs-distributed-lock/health';
import { LockMetricsModule, LockTracingModule } from 'nestjs-distributed-lock/otel';
import { redisStore } from 'nestjs-distributed-lock/redis';

@Controller('ready')
export class ReadyController {
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
    DistributedLockModule.forRoot({ store: redisStore(process.env['REDIS_URL'] ?? 'redis://localhost') }),
    LockMetricsModule.forRoot({ keyLabel: (key) => key.split(':')[0] }),
    LockTracingModule.forRoot(),
    TerminusModule,
  ],
  controllers: [ReadyController],
  providers: [LockHealthIndicator],
})
export class AppModule {}
