import {
  ConfigurableModuleBuilder,
  type FactoryProvider,
  Global,
  Inject,
  Module,
  type OnModuleInit,
} from '@nestjs/common';
import { APP_FILTER, ApplicationConfig, DiscoveryModule, DiscoveryService } from '@nestjs/core';
import { getLockServiceToken, mockError, noRegistrationError } from '../distributed-lock.tokens.js';
import { ServiceInternals } from '../lock/events/service-internals.js';
import type { LockService } from '../lock/lock.service.js';
import { AppConfigGuard } from '../nest/app-config.js';
import { type AnyClass, discoveredClasses, methodsOf } from '../nest/metadata.js';
import { checkOptions, describeNumber, type OptionRules } from '../port/option-checks.js';
import { checkOnce, servesMessagesOnce } from './once.decorator.js';
import { OnceErrorFilter } from './once.error.js';
import { OnceService, type OnceSettings } from './once.service.js';
import { checkResults } from './results.js';

/** Options of `OnceModule.forRoot`. */
export interface OnceModuleOptions extends OnceSettings {
  /** The registration of `DistributedLockModule` whose store has the locks; default: the one without a name. */
  readonly name?: string;
}

const WHERE = 'OnceModule.forRoot';
const RULES: OptionRules<OnceSettings> = {
  results: true,
  serializer: [
    (value) => ['stringify', 'parse'].every((it) => typeof Object(value)[it] === 'function'),
    'an object with stringify and parse',
  ],
  maxLength: [(value) => Number.isInteger(value) && Number(value) >= 1, '1 or more', describeNumber],
};

const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN } = new ConfigurableModuleBuilder<OnceSettings>()
  .setClassMethodName('forRoot')
  .setExtras<Pick<OnceModuleOptions, 'name'>>({ name: undefined }, (definition, { name }) => {
    const service: FactoryProvider = {
      provide: OnceService,
      inject: [{ token: getLockServiceToken(name), optional: true }, MODULE_OPTIONS_TOKEN],
      useFactory(locks: LockService | undefined, settings: OnceSettings): OnceService {
        if (!locks) throw noRegistrationError(name, { where: WHERE });
        if (!ServiceInternals.areIn(locks)) throw mockError(name, WHERE, 'is a mock');
        checkOptions(WHERE, settings, RULES);
        checkResults(settings.results);
        return new OnceService(locks, settings);
      },
    };
    return { ...definition, providers: [...(definition.providers ?? []), service] };
  })
  .build();

/**
 * Offers `OnceService` and `@Once` to all modules. Import it one time, beside `DistributedLockModule`.
 *
 * @example
 * ```ts
 * import { memoryResults, OnceModule } from 'nestjs-distributed-lock/once';
 *
 * OnceModule.forRoot({ results: memoryResults() });
 * ```
 */
@Global()
@Module({
  imports: [DiscoveryModule],
  providers: [{ provide: APP_FILTER, useClass: OnceErrorFilter }],
  exports: [OnceService],
})
export class OnceModule extends ConfigurableModuleClass implements OnModuleInit {
  constructor(
    @Inject(DiscoveryService) private readonly discovery: DiscoveryService,
    @Inject(ApplicationConfig) config: ApplicationConfig,
  ) {
    super();
    // Without it nothing tells to which messages Nest applies the global pipes and interceptors of the application.
    if (this.methods().some(([cls, method]) => servesMessagesOnce(cls, method)))
      config.useGlobalGuards(new AppConfigGuard());
  }

  /** @throws LockConfigurationError that names the first handler whose `@Once` cannot work */
  onModuleInit(): void {
    for (const [cls, method] of this.methods()) checkOnce(cls, method);
  }

  private methods(): readonly (readonly [AnyClass, ReturnType<typeof methodsOf>[number]])[] {
    return discoveredClasses(this.discovery).flatMap(({ cls }) =>
      methodsOf(cls).map((method) => [cls, method] as const),
    );
  }
}
