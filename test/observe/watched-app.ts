import { setImmediate as turn } from 'node:timers/promises';
import type { DynamicModule, INestApplication, LoggerService } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  DistributedLockModule,
  LockService,
  memoryStore,
  type DistributedLockModuleOptions,
  type LockStoreContext,
} from 'nestjs-distributed-lock';
import { FaultyStore, ManualClock, type Faults } from 'nestjs-distributed-lock/testing';

/** An application whose locks, time and network a test controls. */
export class WatchedApp {
  private constructor(
    readonly app: INestApplication,
    readonly clock: ManualClock,
    readonly faults: Faults,
    /** Through which the store tells of its server. */
    readonly storeContext: LockStoreContext | undefined,
  ) {}

  static async start(
    options: DistributedLockModuleOptions = {},
    { imports = [], logger }: { readonly imports?: DynamicModule[]; readonly logger?: LoggerService } = {},
  ): Promise<WatchedApp> {
    const clock = new ManualClock();
    const faults: Faults = {};
    const memory = memoryStore();
    let storeContext: LockStoreContext | undefined;
    const heard = { create: (context: LockStoreContext) => memory.create((storeContext = context)) };
    const store = new FaultyStore(heard, faults);
    const locks = DistributedLockModule.forRoot({ store, clock, shutdownGraceMs: 0, ...options });
    const builder = Test.createTestingModule({ imports: [locks, ...imports] });
    if (logger) builder.setLogger(logger);
    const module = await builder.compile();
    const app = module.createNestApplication(logger ? { logger } : { logger: false });
    await app.init();
    return new WatchedApp(app, clock, faults, storeContext);
  }

  get locks(): LockService {
    return this.app.get(LockService);
  }

  /** No renewal is answered any more. */
  cutRenewals(): void {
    this.faults.command = ({ kind }) =>
      kind === 'renew' ? { executedAfterMs: [], repliedAfterMs: 'never' } : undefined;
  }

  /** Nothing is answered any more. */
  cut(): void {
    this.faults.command = () => ({ executedAfterMs: [], repliedAfterMs: 'never' });
  }

  mend(): void {
    delete this.faults.command;
  }

  async close(): Promise<void> {
    this.mend();
    let isClosed = false;
    const closed = this.app.close().finally(() => (isClosed = true));
    for (let i = 0; i < 1000 && !isClosed; i++) {
      await this.clock.advance(100);
      await turn();
    }
    await closed;
  }
}
