import {
  type BeforeApplicationShutdown,
  type ConfigurableModuleAsyncOptions,
  ConfigurableModuleBuilder,
  type DynamicModule,
  Inject,
  Injectable,
  Module,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
  type Provider,
} from '@nestjs/common';
import {
  APP_FILTER,
  DiscoveryModule,
  DiscoveryService,
  LazyModuleLoader,
  ModulesContainer,
} from '@nestjs/core';
import { conceal } from './common/redaction.js';
import { loadedCopies, getLockHttpToken, getLockServiceToken, twinsText } from './distributed-lock.tokens.js';
import { ServiceInternals } from './lock/events/service-internals.js';
import { LockService } from './lock/lock.service.js';
import { type LockServiceOptions, SERVICE_RULES } from './lock/request/lock-options.js';
import { type LockHttpOptions, resolveLockHttp } from './locked/client-errors.js';
import { LockedExplorer } from './locked/locked.explorer.js';
import { LockErrorFilter } from './locked/error-filters.js';
import { askPlace } from './locked/locked.options.js';
import { Registration } from './locked/registrations.js';
import { memoryStore } from './memory/store.js';
import { isLockLoggerOption, LockLogger, type LockLoggerOption } from './observe/lock.logger.js';
import { LockConfigurationError } from './port/lock.errors.js';
import { checkOptions, type OptionRules, overlay, RULE } from './port/option-checks.js';

/** Options of one registration of the module. */
export interface DistributedLockModuleOptions extends Omit<LockServiceOptions, 'store'> {
  /** The store of the locks: `memoryStore()` (default, for this thread only), `redisStore(…)` or another one. */
  readonly store?: LockServiceOptions['store'];
  /**
   * The answers to lock errors for HTTP clients; default: 423 if the key is busy, 503 if the store is down or the lock was lost, 400 for a
   * bad key.
   */
  readonly http?: LockHttpOptions;
  /**
   * How much to write to Nest's logger. `true` (default): one line with the store and the client at the start, then lost locks and
   * outages of the store. `'warn'` and `'error'` write less, `'debug'` adds lines for each call, `false` writes nothing.
   */
  readonly logger?: LockLoggerOption;
}

/** Options that Nest needs before it calls `useFactory`, so they stand beside it. */
export interface LockRegistration {
  /**
   * The name of this registration, for applications with several, each with a store of its own; default: none. `@Locked(…, { name
   * })` and `@InjectLockService(name)` refer to it. The registration without a name is injected as `LockService` by type.
   */
  readonly name?: string;
  /** Default `true`: one import is enough for the whole application. With `false`, each module that uses locks must import it. */
  readonly isGlobal?: boolean;
}

/** Implemented by a class for `forRootAsync({ useClass })` and `useExisting`. */
export interface DistributedLockOptionsFactory {
  /** Returns the options of the module. Nest calls it once, at boot. */
  createLockOptions(): DistributedLockModuleOptions | Promise<DistributedLockModuleOptions>;
}

export const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN, ASYNC_OPTIONS_TYPE } =
  new ConfigurableModuleBuilder<DistributedLockModuleOptions>({ moduleName: 'DistributedLock' })
    .setClassMethodName('forRoot')
    .setFactoryMethodName('createLockOptions')
    .setExtras<LockRegistration>({ name: undefined, isGlobal: true }, (definition, { isGlobal = true }) => ({
      ...definition,
      global: isGlobal,
    }))
    .build();

const OPTIONS: OptionRules<DistributedLockModuleOptions> = {
  ...SERVICE_RULES,
  http: true,
  logger: [isLockLoggerOption, "true, false, 'error', 'warn', 'log' or 'debug'", String],
};
const REGISTRATION: OptionRules<LockRegistration> = { name: true, isGlobal: true };
const ASYNC: OptionRules<typeof ASYNC_OPTIONS_TYPE> = {
  ...REGISTRATION,
  imports: true,
  inject: true,
  provideInjectionTokensFrom: true,
  useClass: true,
  useExisting: true,
  useFactory: true,
};
export const MODULE_RULES = { options: OPTIONS, registration: REGISTRATION, async: ASYNC };
/** `forRoot` checks only names. A wrong value stops the boot, as with `forRootAsync`. */
const FOR_ROOT = Object.fromEntries(
  Object.keys({ ...OPTIONS, ...REGISTRATION }).map((name) => [name, true] as const),
);

/** The token of the service that `forRoot` has made. It finds that service even if a test overrides `LockService`. */
const OWN_SERVICE = Symbol('DistributedLockModule.forRoot()');

/** Nest calls the hooks of modules with a larger `distance` first; the root module has 1. With -1 a module comes last. */
const LAST = -1;

/**
 * Opens the services of an application, after all other hooks of its boot.
 *
 * By default Nest runs the hooks of global modules first. If a later hook throws, the boot fails and Nest calls no hook that
 * could close the services again, so they would stay open.
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
    const { events } = ServiceInternals.of(first);
    for (const [name, service] of new Map(services.map((it) => [it.name, it]))) {
      // Count by the token, not in `services`. A registration by another copy of this package has the same token, but is not in
      // `services`, because that copy opens it.
      const count = providers.filter(({ token }) => token === getLockServiceToken(name)).length;
      if (count > 1) ServiceInternals.of(service).events.warn(twinsText(count, name));
    }
    const copies = loadedCopies.warning();
    if (copies !== undefined) events.warn(copies);
    if (own.some(({ host }) => this.isOverriddenInVain(host?.metatype))) events.warn(OVERRIDDEN_IN_VAIN);
  }

  /**
   * Returns whether a test overrides the class `DistributedLockModule`. That has no effect, because Nest compares the class with
   * the imports, which are what `forRoot()` returned. Nest's lazy loader has the list of overrides.
   */
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
class LockOpenerModule {}

/** The providers that all registrations of an application share. */
@Module({
  imports: [DiscoveryModule],
  exports: [LockedExplorer],
  providers: [LockedExplorer, { provide: APP_FILTER, useClass: LockErrorFilter }],
})
class LockedModule {}

/**
 * Provides locks in an application: `LockService` and `@Locked`.
 *
 * At shutdown it first refuses new locks, rejects waiting calls and gives holders `shutdownGraceMs` to finish, while the servers
 * of the application still answer. Then it closes the store. Call `enableShutdownHooks()` or `app.close()`.
 */
@Module({
  imports: [DiscoveryModule, LockedModule, LockOpenerModule],
  providers: [{ provide: OWN_SERVICE, useFactory: refuseClassAlone }],
})
export class DistributedLockModule
  extends ConfigurableModuleClass
  implements OnApplicationBootstrap, BeforeApplicationShutdown, OnApplicationShutdown
{
  private readonly registration: Registration;

  constructor(
    @Inject(OWN_SERVICE) private readonly service: LockService,
    @Inject(DiscoveryService) discovery: DiscoveryService,
    @Inject(LockedExplorer) private readonly explorer: LockedExplorer,
  ) {
    super();
    this.registration = new Registration(service, discovery);
    conceal(this, 'service', 'explorer', 'registration');
  }

  /**
   * Registers locks with these options; without options, in the memory of this process. One import in the root module is enough
   * for the whole application.
   *
   * @throws LockConfigurationError at boot when options are wrong or contradict each other
   * @example
   * ```ts
   * DistributedLockModule.forRoot({ store: redisStore('redis://localhost:6379'), keyPrefix: 'shop:' });
   * ```
   */
  static override forRoot(options: DistributedLockModuleOptions & LockRegistration = {}): DynamicModule {
    refuseStoreAlone(options);
    checkOptions('DistributedLockModule.forRoot', options, FOR_ROOT);
    return complete(super.forRoot(options), options.name);
  }

  /**
   * Registers locks with options that `useFactory` or a class returns. Both may inject providers. `name` and `isGlobal`
   * stand beside the factory, because Nest needs them before.
   *
   * @throws LockConfigurationError at boot when options are wrong or contradict each other
   * @example
   * ```ts
   * DistributedLockModule.forRootAsync({
   *   useFactory: () => ({ store: redisStore(process.env['REDIS_URL'] ?? 'redis://localhost:6379') }),
   * });
   * ```
   */
  static override forRootAsync(
    options: ConfigurableModuleAsyncOptions<DistributedLockModuleOptions, 'createLockOptions'> &
      LockRegistration,
  ): DynamicModule {
    checkOptions('DistributedLockModule.forRootAsync', options, ASYNC);
    if (!options.useFactory && !options.useClass && !options.useExisting) {
      throw new LockConfigurationError(
        'DistributedLockModule.forRootAsync needs useFactory, useClass or useExisting, which gives the options.',
      );
    }
    return complete(super.forRootAsync(options), options.name);
  }

  onApplicationBootstrap(): void {
    this.registration.isRunning = true;
    const { events } = ServiceInternals.of(this.service);
    for (const warning of this.explorer.warningsOf(this.service.name)) events.warn(warning);
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.service.drain();
    this.registration.isRunning = false;
  }

  async onApplicationShutdown(): Promise<void> {
    await this.service.close();
  }
}

/**
 * Refuses `DistributedLockModule` itself in `imports`. With `forRoot` another provider replaces this one.
 *
 * @throws LockConfigurationError always
 */
function refuseClassAlone(): never {
  throw new LockConfigurationError(
    'imports have the class DistributedLockModule without options: write DistributedLockModule.forRoot(…).',
  );
}

function refuseStoreAlone(options: object): void {
  if (typeof options !== 'object' || options === null || !('create' in options)) return;
  throw new LockConfigurationError(
    'DistributedLockModule.forRoot takes options, and was given a store: write forRoot({ store: … }) around it.',
  );
}

/** `forRoot` takes these names out of its options, so they come from a factory. */
function refuseRegistrationInFactory(given: unknown): void {
  const options = Object(given) as Readonly<Record<string, unknown>>;
  const late = Object.keys(REGISTRATION).find((it) => options[it] !== undefined);
  if (late === undefined) return;
  throw new LockConfigurationError(
    `DistributedLockModule.forRootAsync: useFactory returned ${late}, which Nest needs before it calls the factory. Write it beside: forRootAsync({ ${late}: …, useFactory: … }).`,
  );
}

function openService(given: DistributedLockModuleOptions, name?: string): LockService {
  refuseRegistrationInFactory(given);
  checkOptions('DistributedLockModule', given, OPTIONS);
  const { store = memoryStore(), logger = true, http, ...options } = given;
  const defaults = http?.position ? overlay(askPlace(http), options.defaults ?? {}) : options.defaults;
  const service = new LockService({ store, ...options, defaults }, name);
  ServiceInternals.of(service).isBooting = true;
  LockLogger.listen(service, logger);
  return service;
}

function complete(definition: DynamicModule, name: string | undefined): DynamicModule {
  checkOptions('DistributedLockModule', { name }, { name: RULE.registration });
  const [token, http] = [getLockServiceToken(name), getLockHttpToken(name)];
  const isDefault = name === undefined || name === 'default';
  const others = isDefault ? loadedCopies.otherServices() : [];
  const providers: Provider[] = [
    {
      provide: OWN_SERVICE,
      useFactory: (options: DistributedLockModuleOptions) => openService(options, name),
      inject: [MODULE_OPTIONS_TOKEN],
    },
    ...(isDefault ? [{ provide: LockService, useExisting: OWN_SERVICE }] : []),
    ...others.map((cls) => ({ provide: cls, useExisting: LockService })),
    { provide: token, useExisting: isDefault ? LockService : OWN_SERVICE },
    {
      provide: http,
      useFactory: (options: DistributedLockModuleOptions) => resolveLockHttp(options.http),
      inject: [MODULE_OPTIONS_TOKEN],
    },
  ];
  return {
    ...definition,
    providers: [...(definition.providers ?? []), ...providers],
    exports: [token, http, ...(isDefault ? [LockService] : []), ...others],
  };
}
