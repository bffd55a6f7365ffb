// What happens to locked methods at boot, before the first call. Nest creates the explorer as a provider of the module, and runs
// `onModuleInit` of it, which stops the boot for a mistake in a `@Locked`.
import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { ApplicationConfig, DiscoveryService, HttpAdapterHost } from '@nestjs/core';
import { getLockServiceToken, noRegistrationError, twinsText } from '../distributed-lock.tokens.js';
import {
  type AnyClass,
  type AnyFunction,
  enhancers,
  discoveredClasses,
  GATEWAY,
  handlerOf,
  isSse,
  isSubscription,
  methodsOf,
  functionsOf,
} from '../nest/metadata.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { LockErrorGatewayFilter } from './error-filters.js';
import { beginFlows, MessageGuard } from './handler-flow.js';
import { lastInterceptor } from './handler-run.js';
import { type LockPlan, lockPlanOf, siteOf } from './lock-plan.js';
import { LOCK_SLOTS } from './locked.decorator.js';
import { LockedInterceptor } from './locked.interceptor.js';

/**
 * Prepares the locked methods of an application once at boot. Binds the lock outside of class interceptors, makes gateways answer
 * with lock errors, installs `MessageGuard`, and checks every `@Locked`.
 */
@Injectable()
export class LockedExplorer implements OnModuleInit {
  private plans: readonly LockPlan[] = [];

  constructor(
    @Inject(DiscoveryService) private readonly discovery: DiscoveryService,
    @Inject(ApplicationConfig) config: ApplicationConfig,
    @Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost,
  ) {
    let hasMessages = false;
    // Bind interceptors in the constructor. In `onModuleInit` it would be too late: Nest has registered the routes by then.
    for (const cls of this.classes()) {
      const locked = methodsOf(cls).filter(([, fn]) => siteOf(fn));
      hasMessages ||= locked.some(([name, fn]) => handlerOf(cls, name, fn as AnyFunction).servesMessages);
      const hasOwn = enhancers.of('interceptors', cls).length > 0;
      if (locked.length > 0 && hasOwn) enhancers.putFirst('interceptors', LockedInterceptor, cls);
      for (const fn of locked.map(([, it]) => it as AnyFunction)) {
        if (hasOwn || enhancers.of('interceptors', fn).length > 1)
          enhancers.putLast('interceptors', lastInterceptor, fn);
        // For server-sent events bind the lock as a guard, too. Nest sends the headers before it runs interceptors, so only a
        // guard can still set a status.
        if (isSse(fn)) enhancers.putLast('guards', LockedInterceptor, fn);
      }
      // Nest tries filters from the last to the first. As the first, this one is tried after those of the application.
      if (Reflect.hasMetadata(GATEWAY, cls))
        enhancers.putFirst('filters', LockErrorGatewayFilter.instance, cls);
    }
    if (hasMessages) config.useGlobalGuards(new MessageGuard());
  }

  /** @throws LockConfigurationError that names the first method whose `@Locked` cannot work */
  onModuleInit(): void {
    // An application context without HTTP has no adapter. The HTTP server exists by now, and does not listen yet.
    beginFlows(this.adapterHost.httpAdapter?.getHttpServer());
    this.plans = [...this.classes()].flatMap((cls) => [
      ...methodsOf(cls).flatMap((method) => planOf(cls, cls.prototype as object, method)),
      ...functionsOf(cls).flatMap((method) => planOf(cls, cls, method)),
    ]);
    const tokens = this.discovery.getProviders().map(({ token }) => token as unknown);
    for (const { where, options } of this.plans) {
      const token = getLockServiceToken(options.name);
      const count = tokens.filter((it) => it === token).length;
      if (count === 0) throw noRegistrationError(options.name, { where: `@Locked on ${where}` });
      if (count > 1)
        throw new LockConfigurationError(`@Locked on ${where}: ${twinsText(count, options.name)}`);
    }
  }

  /** The warnings that this registration logs about its locked methods. */
  warningsOf(registration: string): readonly string[] {
    return this.plans.flatMap(({ options: { name = 'default' }, warning }) =>
      name === registration && warning ? warning : [],
    );
  }

  private classes(): ReadonlySet<AnyClass> {
    return new Set(discoveredClasses(this.discovery).map(({ cls }) => cls));
  }
}

/** @param owner the class for a static method, otherwise its prototype */
function planOf(
  cls: AnyClass,
  owner: object,
  [name, fn]: ReturnType<typeof methodsOf>[number],
): LockPlan | readonly [] {
  const site = siteOf(fn);
  if (!site) {
    if (!LOCK_SLOTS.has(owner, name)) return [];
    throw new LockConfigurationError(
      `@CurrentLock or @LockSignal on ${cls.name}.${String(name)}: the method has no @Locked. Put one on it, or take the parameter away.`,
    );
  }
  const plan = lockPlanOf(cls, site);
  if (!isSubscription(fn as object)) return plan;
  throw new LockConfigurationError(
    `@Locked on ${plan.where}: a subscription goes on when its resolver has returned and its lock is released; acquire inside its generator.`,
  );
}
