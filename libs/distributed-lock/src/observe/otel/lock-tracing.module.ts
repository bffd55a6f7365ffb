import { Module, type DynamicModule } from '@nestjs/common';
import { checkOptionNames } from '../../options/option-names.js';
import { TRACING_NAMES, traceLocks, type LockTracingOptions } from './lock.tracing.js';
import { observingModule } from './observing-module.js';

/** Makes spans of the locks of a registration of `DistributedLockModule`, from the start of the application. */
@Module({})
export class LockTracingModule {
  /** Makes spans of the locks of one registration. Import it beside `DistributedLockModule`, once for each registration. */
  static forRoot(options: LockTracingModuleOptions = {}): DynamicModule {
    checkOptionNames('LockTracingModule', options, { ...TRACING_NAMES, name: true });
    return observingModule(LockTracingModule, options, traceLocks);
  }
}

/** Options of `LockTracingModule.forRoot`. */
export interface LockTracingModuleOptions extends LockTracingOptions {
  /** The registration to trace; default: the one without a name. */
  readonly name?: string;
}
