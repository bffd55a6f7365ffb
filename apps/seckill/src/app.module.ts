import { Module, type DynamicModule } from '@nestjs/common';
import { DistributedLockModule, memoryStore } from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';
import type { Config } from './config.js';
import { DatabaseModule } from './database/database.module.js';
import { GoodsModule } from './goods/goods.module.js';
import { OrdersModule } from './orders/orders.module.js';

@Module({})
export class AppModule {
  static register({ databaseUrl, redisUrl, locked, ...timings }: Config): DynamicModule {
    const store = redisUrl === undefined ? memoryStore() : redisStore(redisUrl);
    const { watchdogTimeoutMs, waitMs } = timings;
    return {
      module: AppModule,
      imports: [
        DistributedLockModule.forRoot({ store, watchdogTimeoutMs, waitMs }),
        DatabaseModule.register(databaseUrl),
        GoodsModule,
        OrdersModule.register(locked),
      ],
    };
  }
}
