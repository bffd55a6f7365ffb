import type { DynamicModule, OnModuleInit, Type } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { findLockService } from '../../distributed-lock.tokens.js';
import type { LockService } from '../../lock/lock.service.js';

const OPTIONS = Symbol('observingModule.options');
const OBSERVER = Symbol('observingModule.observer');

/**
 * The dynamic module that hands the service of a registration to `observe` when the modules of the application start. It does
 * not do so earlier, so that the program can set its global providers of OpenTelemetry before.
 */
export function observingModule<Options extends { readonly name?: string }>(
  module: Type,
  options: Options,
  observe: (service: LockService, options: Omit<Options, 'name'>) => void,
): DynamicModule {
  const useFactory = (moduleRef: ModuleRef, { name, ...others }: Options): OnModuleInit => ({
    onModuleInit: () =>
      observe(findLockService(moduleRef, name, { where: `${module.name}.forRoot` }), others),
  });
  // With `moduleIdGeneratorAlgorithm: 'deep-hash'` Nest takes imports with equal providers for one: this value tells them apart.
  const providers = [
    { provide: OPTIONS, useValue: options },
    { provide: OBSERVER, useFactory, inject: [ModuleRef, OPTIONS] },
  ];
  return { module, providers };
}
