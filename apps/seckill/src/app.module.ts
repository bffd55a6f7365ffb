import { Module, type DynamicModule } from '@nestjs/common';
import { DistributedLockModule } from 'nestjs-distributed-lock';
import { CONFIG, type Config } from './config.js';
import { CrowdModule } from './crowd/crowd.module.js';
import { DatabaseModule } from './database/database.module.js';
import { GoodsModule } from './goods/goods.module.js';
import { InstancesModule } from './instances/instances.module.js';
import { LiveModule } from './live/live.module.js';
import { OrdersModule } from './orders/orders.module.js';
import { ReportModule } from './report/report.module.js';
import { lockStoreOf } from './stores/lock-store.js';

@Module({})
export class AppModule {
  static register(config: Config): DynamicModule {
    const { databaseUrl, watchdogTimeoutMs, waitMs, locked } = config;
    const store = lockStoreOf(config);
    return {
      module: AppModule,
      global: true,
      providers: [{ provide: CONFIG, useValue: config }],
      exports: [CONFIG],
      imports: [
        DistributedLockModule.forRoot({ store, watchdogTimeoutMs, waitMs }),
        DatabaseModule.register(databaseUrl),
        InstancesModule,
        GoodsModule,
        OrdersModule.register(locked),
        CrowdModule,
        LiveModule,
        ReportModule,
      ],
    };
  }
}
