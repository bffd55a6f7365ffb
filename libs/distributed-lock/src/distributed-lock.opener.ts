import { Inject, Injectable, Module, type OnApplicationBootstrap } from '@nestjs/common';
import { DiscoveryModule, DiscoveryService, LazyModuleLoader, ModulesContainer } from '@nestjs/core';
import { getLockServiceToken, twinsText } from './distributed-lock.tokens.js';
import { copiesText } from './lock/copies.js';
import { warn } from './lock/events/service-internals.js';
import type { LockService } from './lock/lock.service.js';

/** The service that a registration has made, also when a test overrides `LockService`. */
export const OWN_SERVICE = Symbol('DistributedLockModule.forRoot()');

/** Nest runs the hooks of modules in descending order of their distance. The distance of the root is 1. */
const LAST = -1;

/**
 * Opens the services of an application after all other hooks of its boot.
 *
 * The hooks of global modules run first. If a later hook throws, Nest calls no hook that could close the services again.
 */
@Injectable()
class LockOpener implements OnApplicationBootstrap {
  constructor(
    @Inject(ModulesContainer) modules: ModulesContainer,
    @Inject(DiscoveryService) private readonly discovery: DiscoveryService,
    @Inject(LazyModuleLoader) private readonly loader: LazyModuleLoader,
  ) {
    for (const module of modules.values()) if (module.metatype === LockOpenerModule) module.distance = LAST;
  }

  onApplicationBootstrap(): void {
    const providers = this.discovery.getProviders();
    const own = providers.filter(({ token }) => token === OWN_SERVICE);
    const services = own.map(({ instance }) => instance as LockService);
    for (const service of services) service.open();
    const [first] = services;
    if (!first) return;
    for (const [name, service] of new Map(services.map((it) => [it.name, it]))) {
      // By token, because another copy of this package has an opener of its own.
      const count = providers.filter(({ token }) => token === getLockServiceToken(name)).length;
      if (count > 1) warn(service, twinsText(count, name));
    }
    const copies = copiesText();
    if (copies !== undefined) warn(first, copies);
    if (own.some(({ host }) => this.isOverriddenInVain(host?.metatype))) warn(first, OVERRIDDEN_IN_VAIN);
  }

  /** Nest compares the module of `Test…overrideModule()` with the imports by identity. The lazy loader has the list of them. */
  private isOverriddenInVain(module: unknown): boolean {
    const { moduleOverrides } = this.loader as unknown as {
      readonly moduleOverrides?: readonly { readonly moduleToReplace?: unknown }[];
    };
    return moduleOverrides?.some((it) => it.moduleToReplace === module) ?? false;
  }
}

const OVERRIDDEN_IN_VAIN =
  'overrideModule(DistributedLockModule) replaces nothing, because imports have what forRoot() returned. In a test give other locks by overrideProvider(LockService).useValue(new TestLocks()), or overrideProvider(getLockServiceToken(name)) for a registration with a name; TestLocks is in nestjs-distributed-lock/testing.';

@Module({ imports: [DiscoveryModule], providers: [LockOpener] })
export class LockOpenerModule {}
