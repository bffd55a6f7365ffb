import { type DynamicModule, Module, type OnModuleInit, type Type } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { findLockService } from '../../distributed-lock.tokens.js';
import type { LockService } from '../../lock/lock.service.js';
import { checkOptions } from '../../port/option-checks.js';
import { type LockMetricsOptions, measureLocks, METRICS_NAMES } from './lock.metrics.js';
import { type LockTracingOptions, traceLocks, TRACING_NAMES } from './lock.tracing.js';

/** Exports metrics of the locks of a registration of `DistributedLockModule`, from the start of the application. */
@Module({})
export class LockMetricsModule {
  /** Measures the locks of one registration. Import it beside `DistributedLockModule`, once for each registration. */
  static forRoot(options: LockMetricsModuleOptions = {}): DynamicModule {
    checkOptions('LockMetricsModule', options, { ...METRICS_NAMES, name: true });
    return observingModule(LockMetricsModule, options, measureLocks);
  }
}

/** Options of `LockMetricsModule.forRoot`. */
export interface LockMetricsModuleOptions extends LockMetricsOptions {
  /** The registration to measure; default: the one without a name. */
  readonly name?: string;
}

const OPTIONS = Symbol('observingModule.options');
const OBSERVER = Symbol('observingModule.observer');

/**
 * Makes the dynamic module that passes the service of a registration to `observe` when the application starts. Not earlier, so
 * that the program can set its global OpenTelemetry providers first.
 */
function observingModule<Options extends { readonly name?: string }>(
  module: Type,
  options: Options,
  observe: (service: LockService, options: Omit<Options, 'name'>) => void,
): DynamicModule {
  const useFactory = (moduleRef: ModuleRef, { name, ...others }: Options): OnModuleInit => ({
    onModuleInit: () =>
      observe(findLockService(moduleRef, name, { where: `${module.name}.forRoot` }), others),
  });
  // Nest takes two dynamic modules with equal providers for one if `moduleIdGeneratorAlgorithm` is `'deep-hash'`. This value
  // makes them differ.
  const providers = [
    { provide: OPTIONS, useValue: options },
    { provide: OBSERVER, useFactory, inject: [ModuleRef, OPTIONS] },
  ];
  return { module, providers };
}

/** Makes spans of the locks of a registration of `DistributedLockModule`, from the start of the application. */
@Module({})
export class LockTracingModule {
  /** Makes spans of the locks of one registration. Import it beside `DistributedLockModule`, once for each registration. */
  static forRoot(options: LockTracingModuleOptions = {}): DynamicModule {
    checkOptions('LockTracingModule', options, { ...TRACING_NAMES, name: true });
    return observingModule(LockTracingModule, options, traceLocks);
  }
}

/** Options of `LockTracingModule.forRoot`. */
export interface LockTracingModuleOptions extends LockTracingOptions {
  /** The registration to trace; default: the one without a name. */
  readonly name?: string;
}
