import { Inject, Injectable, Module, type OnApplicationBootstrap } from '@nestjs/common';
import { DiscoveryModule, DiscoveryService, ModulesContainer } from '@nestjs/core';
import { getLockServiceToken } from './distributed-lock.tokens.js';
import { copiesText } from './lock/copies.js';
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

  constructor(
    @Inject(ModulesContainer) modules: ModulesContainer,
    @Inject(DiscoveryService) private readonly discovery: DiscoveryService,
  ) {
    for (const module of modules.values()) if (module.metatype === LockOpenerModule) module.distance = LAST;
  }

  add(service: LockService): void {
    this.services.push(service);
  }

  onApplicationBootstrap(): void {
    for (const service of this.services) service.open();
    this.warnOfTwins();
    const [first] = this.services;
    const copies = copiesText();
    if (first && copies !== undefined) warn(first, copies);
  }

  /** Each registration has a store of its own, so that two of one name exclude each other only on a common server. */
  private warnOfTwins(): void {
    const tokens = this.discovery.getProviders().map(({ token }) => token as unknown);
    for (const name of new Set(this.services.map((it) => it.name))) {
      // By token, because another copy of this package has an opener of its own.
      const count = tokens.filter((token) => token === getLockServiceToken(name)).length;
      if (count === 1) continue;
      warn(
        this.services.find((it) => it.name === name) as LockService,
        `${count} DistributedLockModules have the name "${name}": each has a LockService and a store of its own. Import it once, in the root module, or give each a name of its own: forRoot({ name: 'jobs', … }).`,
      );
    }
  }
}

@Module({ imports: [DiscoveryModule], providers: [LockOpener], exports: [LockOpener] })
export class LockOpenerModule {}
