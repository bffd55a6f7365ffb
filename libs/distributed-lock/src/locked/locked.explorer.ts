import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { DiscoveryService, MetadataScanner } from '@nestjs/core';
import { getLockServiceToken } from '../distributed-lock.tokens.js';
import { LockConfigurationError } from '../lock/lock.errors.js';
import { slotsOf } from './current-lock.decorator.js';
import { KeyPlan } from './key-plan.js';
import { LockErrorGatewayFilter } from './lock-error.gateway-filter.js';
import { LockedInterceptor } from './locked.interceptor.js';
import { siteOf, type AnyClass } from './locked-site.js';
import { FILTERS, GATEWAY, INTERCEPTORS, isSubscription, putInFront } from './nest-metadata.js';

type Wrapper = ReturnType<DiscoveryService['getProviders']>[number];

/**
 * Looks at every class of the application once: puts the lock around class interceptors, lets gateways answer
 * with lock errors, and checks what it can.
 */
@Injectable()
export class LockedExplorer implements OnModuleInit {
  private readonly registrations = new Map<unknown, number>();

  constructor(
    @Inject(DiscoveryService) private readonly discovery: DiscoveryService,
    @Inject(MetadataScanner) private readonly scanner: MetadataScanner,
  ) {
    // Here and not in onModuleInit: Nest registers routes in between.
    for (const cls of this.classes()) {
      const isLocked = this.methods(cls).some(([, fn]) => siteOf(fn));
      if (isLocked && Reflect.hasMetadata(INTERCEPTORS, cls)) {
        putInFront(INTERCEPTORS, LockedInterceptor, cls);
      }
      // Of filters the first is asked last: those of the application come before it.
      if (Reflect.hasMetadata(GATEWAY, cls)) putInFront(FILTERS, LockErrorGatewayFilter.instance, cls);
    }
  }

  /** @throws LockConfigurationError that names the first method whose `@Locked` cannot work */
  onModuleInit(): void {
    for (const { token } of this.discovery.getProviders()) {
      this.registrations.set(token, (this.registrations.get(token) ?? 0) + 1);
    }
    for (const cls of this.classes()) {
      for (const [name, fn] of this.methods(cls)) this.check(cls, name, fn);
    }
  }

  private check(cls: AnyClass, name: string, fn: unknown): void {
    const site = siteOf(fn);
    if (!site) {
      if (slotsOf(cls, name).length === 0) return;
      throw new LockConfigurationError(
        `@CurrentLock or @LockSignal on ${cls.name}.${name}: the method has no @Locked.`,
      );
    }
    const { where, options } = KeyPlan.of(cls, site);
    if (isSubscription(fn as object)) {
      throw new LockConfigurationError(
        `@Locked on ${where}: a subscription goes on when its resolver has returned and its lock is released; acquire inside its generator.`,
      );
    }
    const registration = options.service ?? 'default';
    const count = this.registrations.get(getLockServiceToken(registration)) ?? 0;
    if (count === 1) return;
    const found = count === 0 ? 'no DistributedLockModule has' : `${count} DistributedLockModules have`;
    throw new LockConfigurationError(`@Locked on ${where}: ${found} the name "${registration}".`);
  }

  private classes(): ReadonlySet<AnyClass> {
    const wrappers = [...this.discovery.getControllers(), ...this.discovery.getProviders()];
    return new Set(wrappers.flatMap((wrapper) => classOf(wrapper) ?? []));
  }

  private methods(cls: AnyClass): readonly (readonly [name: string, fn: unknown])[] {
    const prototype = cls.prototype as Readonly<Record<string, unknown>>;
    return this.scanner.getAllMethodNames(prototype).map((name) => [name, prototype[name]]);
  }
}

/** Never through the instance of a class: those of request-scoped classes are empty shells. */
function classOf(wrapper: Wrapper): AnyClass | undefined {
  const { metatype, isNotMetatype } = wrapper;
  const instance: unknown = isNotMetatype ? wrapper.instance : undefined;
  const cls = isNotMetatype ? (instance as object | null | undefined)?.constructor : metatype;
  return typeof cls === 'function' && typeof cls.prototype === 'object'
    ? (cls as unknown as AnyClass)
    : undefined;
}
