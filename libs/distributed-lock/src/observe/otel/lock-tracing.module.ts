import { Inject, Module, type DynamicModule, type OnModuleInit } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { findLockService } from '../../distributed-lock.tokens.js';
import { checkOptionNames } from '../../options/option-names.js';
import { TRACING_NAMES, traceLocks, type LockTracingOptions } from './lock.tracing.js';

const OPTIONS = Symbol('LockTracingModule.options');

/** Makes spans of the locks of a registration of `DistributedLockModule`, from the start of the application. */
@Module({})
export class LockTracingModule implements OnModuleInit {
  constructor(
    @Inject(OPTIONS) private readonly options: LockTracingModuleOptions,
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
  ) {}

  /** Makes spans of the locks of one registration. Import it beside `DistributedLockModule`, once for each registration. */
  static forRoot(options: LockTracingModuleOptions = {}): DynamicModule {
    checkOptionNames('LockTracingModule', options, { ...TRACING_NAMES, name: true });
    return { module: LockTracingModule, providers: [{ provide: OPTIONS, useValue: options }] };
  }

  onModuleInit(): void {
    const { name, ...options } = this.options;
    traceLocks(findLockService(this.moduleRef, name, 'LockTracingModule.forRoot', 'name'), options);
  }
}

/** Options of `LockTracingModule.forRoot`. */
export interface LockTracingModuleOptions extends LockTracingOptions {
  /** The registration to trace; default: the one without a name. */
  readonly name?: string;
}
