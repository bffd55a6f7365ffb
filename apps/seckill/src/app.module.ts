import { type DynamicModule, Global, Module } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { DistributedLockModule } from 'nestjs-distributed-lock';
import { OnceModule, sqlResults } from 'nestjs-distributed-lock/once';
import { Database } from './database.js';
import { CrowdController } from './live/crowd.controller.js';
import { CrowdService } from './live/crowd.service.js';
import { InstanceService } from './live/instance.service.js';
import { ViewController } from './live/view.controller.js';
import { ViewService } from './live/view.service.js';
import { createSchema } from './schema.js';
import type { Settings } from './settings.js';
import { GoodsController } from './shop/goods.controller.js';
import { GoodsRepository } from './shop/goods.repository.js';
import { NightlyReport } from './shop/nightly-report.js';
import { OrdersRepository } from './shop/orders.repository.js';
import { PaymentController } from './shop/payment.controller.js';
import { PurchaseController } from './shop/purchase.controller.js';
import { PurchaseService } from './shop/purchase.service.js';
import { RestockService } from './shop/restock.service.js';

/** Global, because `OnceModule` stores its results there, too. */
@Global()
@Module({})
class DatabaseModule {
  static register(url: string): DynamicModule {
    return {
      module: DatabaseModule,
      providers: [{ provide: Database, useFactory: () => openDatabase(url) }],
      exports: [Database],
    };
  }
}

@Module({})
export class AppModule {
  static register({
    databaseUrl,
    store,
    watchdogTimeoutMs,
    waitMs,
  }: Omit<Settings, 'host' | 'port'>): DynamicModule {
    return {
      module: AppModule,
      imports: [
        DatabaseModule.register(databaseUrl),
        DistributedLockModule.forRoot({ store, watchdogTimeoutMs, waitMs }),
        OnceModule.forRootAsync({
          inject: [Database],
          useFactory: (database: Database) => ({
            results: sqlResults((sql, parameters) => database.query(sql, parameters)),
          }),
        }),
        ScheduleModule.forRoot(),
      ],
      controllers: [GoodsController, PurchaseController, PaymentController, CrowdController, ViewController],
      providers: [
        GoodsRepository,
        OrdersRepository,
        PurchaseService,
        RestockService,
        NightlyReport,
        InstanceService,
        CrowdService,
        ViewService,
      ],
    };
  }
}

async function openDatabase(url: string): Promise<Database> {
  const database = new Database(url);
  try {
    await createSchema(database);
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}
