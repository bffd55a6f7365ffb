import {
  Inject,
  Module,
  type BeforeApplicationShutdown,
  type ConfigurableModuleAsyncOptions,
  type DynamicModule,
  type OnApplicationShutdown,
  type OnApplicationBootstrap,
  type Provider,
} from '@nestjs/common';
import { APP_FILTER, DiscoveryModule, DiscoveryService } from '@nestjs/core';
import {
  ASYNC_NAMES,
  ConfigurableModuleClass,
  MODULE_NAMES,
  MODULE_OPTIONS_TOKEN,
  REGISTRATION_NAMES,
  type LockModuleOptions,
  type LockRegistration,
} from './distributed-lock.options.js';
import { LockOpenerModule, OWN_SERVICE } from './distributed-lock.opener.js';
import { getLockHttpToken, getLockServiceToken } from './distributed-lock.tokens.js';
import { conceal } from './redaction/conceal.js';
import { LockConfigurationError } from './port/lock.errors.js';
import { internalsOf, warn } from './lock/events/service-internals.js';
import { otherServices } from './lock/copies.js';
import { LockService } from './lock/lock.service.js';
import { checkOptionNames, checkOptions, REGISTRATION_NAME } from './options/option-names.js';
import { Registration } from './locked/live-services.js';
import { LockErrorFilter } from './locked/lock-error.filter.js';
import { resolveLockHttp } from './locked/lock-http.js';
import { LockedExplorer } from './locked/locked.explorer.js';
import { LockLogger, isLockLoggerOption } from './observe/lock.logger.js';
import { memoryStore } from './stores/memory/memory.store.js';

/** The parts that all registrations of an application share. */
@Module({
  imports: [DiscoveryModule],
  exports: [LockedExplorer],
  providers: [LockedExplorer, { provide: APP_FILTER, useClass: LockErrorFilter }],
})
class LockedModule {}

/**
 * Offers locks to an application: `LockService`, and `@Locked`.
 *
 * At shutdown it first refuses new locks, rejects waiting calls and gives holders `shutdownGraceMs` to finish, while the
 * servers still answer. Then it closes the store. Call `enableShutdownHooks()` or `app.close()`.
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
   * Registers locks with the given options; without any, in the memory of this process. One import in the root module is
   * enough for the whole application.
   *
   * @throws LockConfigurationError at boot when options are wrong or contradict each other
   * @example
   * ```ts
   * DistributedLockModule.forRoot({ store: redisStore('redis://localhost:6379'), keyPrefix: 'shop:' });
   * ```
   */
  static override forRoot(options: LockModuleOptions & LockRegistration = {}): DynamicModule {
    refuseStoreAlone(options);
    checkOptionNames('DistributedLockModule.forRoot', options, { ...MODULE_NAMES, ...REGISTRATION_NAMES });
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
    options: ConfigurableModuleAsyncOptions<LockModuleOptions, 'createLockOptions'> & LockRegistration,
  ): DynamicModule {
    checkOptionNames('DistributedLockModule.forRootAsync', options, ASYNC_NAMES);
    if (!options.useFactory && !options.useClass && !options.useExisting) {
      throw new LockConfigurationError(
        'DistributedLockModule.forRootAsync needs useFactory, useClass or useExisting, which gives the options.',
      );
    }
    return complete(super.forRootAsync(options), options.name);
  }

  onApplicationBootstrap(): void {
    this.registration.isRunning = true;
    for (const warning of this.explorer.warningsOf(this.service.name)) warn(this.service, warning);
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.service.drain();
    this.registration.isRunning = false;
  }

  async onApplicationShutdown(): Promise<void> {
    await this.service.close();
  }
}

/** @throws LockConfigurationError for the class alone in `imports`. Under `forRoot` another provider replaces this one */
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

function openService(given: LockModuleOptions, name?: string): LockService {
  checkOptions('DistributedLockModule', given, {
    ...MODULE_NAMES,
    logger: [isLockLoggerOption, "true, false, 'error', 'warn', 'log' or 'debug'", String],
  });
  const { store = memoryStore(), logger = true, http: _http, ...options } = given;
  const service = new LockService({ store, ...options }, name);
  internalsOf(service).isBooting = true;
  LockLogger.listen(service, logger);
  return service;
}

function complete(definition: DynamicModule, name: string | undefined): DynamicModule {
  checkOptions('DistributedLockModule', { name }, { name: REGISTRATION_NAME });
  const [token, http] = [getLockServiceToken(name), getLockHttpToken(name)];
  const isDefault = name === undefined || name === 'default';
  const others = isDefault ? otherServices() : [];
  const providers: Provider[] = [
    {
      provide: OWN_SERVICE,
      useFactory: (options: LockModuleOptions) => openService(options, name),
      inject: [MODULE_OPTIONS_TOKEN],
    },
    ...(isDefault ? [{ provide: LockService, useExisting: OWN_SERVICE }] : []),
    ...others.map((cls) => ({ provide: cls, useExisting: LockService })),
    { provide: token, useExisting: isDefault ? LockService : OWN_SERVICE },
    {
      provide: http,
      useFactory: (options: LockModuleOptions) => resolveLockHttp(options.http),
      inject: [MODULE_OPTIONS_TOKEN],
    },
  ];
  return {
    ...definition,
    providers: [...(definition.providers ?? []), ...providers],
    exports: [token, http, ...(isDefault ? [LockService] : []), ...others],
  };
}
