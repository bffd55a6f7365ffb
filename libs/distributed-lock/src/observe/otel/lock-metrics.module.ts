import { Module, type DynamicModule } from '@nestjs/common';
import { checkOptionNames } from '../../options/option-names.js';
import { METRICS_NAMES, measureLocks, type LockMetricsOptions } from './lock.metrics.js';
import { observingModule } from './observing-module.js';

/** Measures the locks of a registration of `DistributedLockModule`, from the start of the application. */
@Module({})
export class LockMetricsModule {
  /** Measures the locks of one registration. Import it beside `DistributedLockModule`, once for each registration. */
  static forRoot(options: LockMetricsModuleOptions = {}): DynamicModule {
    checkOptionNames('LockMetricsModule', options, { ...METRICS_NAMES, name: true });
    return observingModule(LockMetricsModule, options, measureLocks);
  }
}

/** Options of `LockMetricsModule.forRoot`. */
export interface LockMetricsModuleOptions extends LockMetricsOptions {
  /** The registration to measure; default: the one without a name. */
  readonly name?: string;
}
