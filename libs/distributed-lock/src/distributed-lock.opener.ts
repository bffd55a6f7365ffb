import { Inject, Injectable, Module, type OnApplicationBootstrap } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import type { LockService } from './lock/lock.service.js';

/** Nest runs the hooks of its modules in the falling order of this number; the root has 1. */
const LAST = -1;

/**
 * Opens the services of an application when all of it has booted.
 *
 * The hooks of global modules run first. Where a hook after them throws, Nest calls none that could close what they opened.
 */
@Injectable()
export class LockOpener implements OnApplicationBootstrap {
  private readonly services: LockService[] = [];

  constructor(@Inject(ModulesContainer) modules: ModulesContainer) {
    for (const module of modules.values()) if (module.metatype === LockOpenerModule) module.distance = LAST;
  }

  add(service: LockService): void {
    this.services.push(service);
  }

  onApplicationBootstrap(): void {
    for (const service of this.services) service.open();
  }
}

@Module({ providers: [LockOpener], exports: [LockOpener] })
export class LockOpenerModule {}
