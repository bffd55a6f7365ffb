import type { DynamicModule, OnModuleInit, Type } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { findLockService } from '../../distributed-lock.tokens.js';
import type { LockService } from '../../lock/lock.service.js';

const OBSERVER = Symbol('observingModule.observer');

/**
 * The dynamic module that hands the service of a registration to `observe` when the modules of the application start. It does
 * not do so earlier, so that the program can set its global providers of OpenTelemetry before.
 */
export function observingModule(
  module: Type,
  name: string | undefined,
  observe: (service: LockService) => void,
): DynamicModule {
  const useFactory = (moduleRef: ModuleRef): OnModuleInit => ({
    onModuleInit: () => observe(findLockService(moduleRef, name, `${module.name}.forRoot`, 'name')),
  });
  return { module, providers: [{ provide: OBSERVER, useFactory, inject: [ModuleRef] }] };
}
