import { Inject, Injectable, Module, type OnApplicationBootstrap } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { warn } from './lock/events/service-internals.js';
import type { LockService } from './lock/lock.service.js';

/** Nest runs the hooks of modules in descending order of their distance. The distance of the root is 1. */
const LAST = -1;

/**
 * Opens the services of an application after all other hooks of its boot.
 *
 * The hooks of global modules run first. If a later hook throws, Nest calls no hook that could close the services again.
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
    this.warnOfTwins();
  }

  /** Each registration has a store of its own, so that two of one name exclude each other only on a common server. */
  private warnOfTwins(): void {
    for (const service of this.services) {
      const { name } = service;
      const twins = this.services.filter((it) => it.name === name);
      if (twins.length === 1 || twins[0] !== service) continue;
      warn(
        service,
        `${twins.length} DistributedLockModules have the name "${name}": each has a LockService and a store of its own. Import it once, in the root module, or give each a name of its own: forRoot({ name: 'jobs', … }).`,
      );
    }
  }
}

@Module({ providers: [LockOpener], exports: [LockOpener] })
export class LockOpenerModule {}
