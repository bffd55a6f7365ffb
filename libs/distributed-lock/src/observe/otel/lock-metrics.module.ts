import { Inject, Module, type DynamicModule, type OnModuleInit } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { findLockService } from '../../distributed-lock.tokens.js';
import { checkOptionNames } from '../../options/option-names.js';
import { METRICS_NAMES, measureLocks, type LockMetricsOptions } from './lock.metrics.js';

const OPTIONS = Symbol('LockMetricsModule.options');

/** Measures the locks of a registration of `DistributedLockModule`, from the start of the application. */
@Module({})
export class LockMetricsModule implements OnModuleInit {
  constructor(
    @Inject(OPTIONS) private readonly options: LockMetricsModuleOptions,
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
  ) {}

  /** Measures the locks of one registration. Import it beside `DistributedLockModule`, once for each registration. */
  static forRoot(options: LockMetricsModuleOptions = {}): DynamicModule {
    checkOptionNames('LockMetricsModule', options, { ...METRICS_NAMES, name: true });
    return { module: LockMetricsModule, providers: [{ provide: OPTIONS, useValue: options }] };
  }

  /** Not earlier, so that the program can set its global meter provider before. */
  onModuleInit(): void {
    const { name, ...options } = this.options;
    measureLocks(findLockService(this.moduleRef, name, 'LockMetricsModule.forRoot', 'name'), options);
  }
}

/** Options of `LockMetricsModule.forRoot`. */
export interface LockMetricsModuleOptions extends LockMetricsOptions {
  /** The registration to measure; default: the one without a name. */
  readonly name?: string;
}
