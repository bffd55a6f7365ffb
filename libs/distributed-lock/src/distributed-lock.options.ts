import { ConfigurableModuleBuilder } from '@nestjs/common';
import { SERVICE_NAMES, type LockServiceOptions } from './lock/request/lock-options.js';
import type { OptionNames } from './options/option-names.js';
import type { LockHttpOptions } from './locked/lock-http.js';
import type { LockLoggerOption } from './observe/lock.logger.js';

/** Options of one registration of the module. */
export interface LockModuleOptions extends Omit<LockServiceOptions, 'store'> {
  /** Where the locks live: `memoryStore()` (default, this thread only), `redisStore(…)` or another store. */
  readonly store?: LockServiceOptions['store'];
  /** Statuses of lock errors for HTTP clients; default: 423 busy, 503 store down, 503 lost, 400 bad key. */
  readonly http?: LockHttpOptions;
  /**
   * Lines in Nest's logger. `true` (default): one line with the store and the client at the start, then lost locks and
   * outages of the store. `'warn'` and `'error'` write less, `'debug'` writes lines for every call, `false` writes none.
   */
  readonly logger?: LockLoggerOption;
}

/** Options that Nest needs before it calls `useFactory`. */
export interface LockRegistration {
  /**
   * For applications with several registrations, each with a store of its own; default: none. `@Locked(…, { name })` and
   * `@InjectLockService(name)` use it. The registration without a name is injected as `LockService` by type.
   */
  readonly name?: string;
  /** Default `true`, so that one import is enough for the whole application. With `false` each module that uses locks imports it. */
  readonly isGlobal?: boolean;
}

/** For `forRootAsync({ useClass })` and `useExisting`. */
export interface LockOptionsFactory {
  /** Returns the options of the module. Nest calls it once, at boot. */
  createLockOptions(): LockModuleOptions | Promise<LockModuleOptions>;
}

export const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN, ASYNC_OPTIONS_TYPE } =
  new ConfigurableModuleBuilder<LockModuleOptions>({ moduleName: 'DistributedLock' })
    .setClassMethodName('forRoot')
    .setFactoryMethodName('createLockOptions')
    .setExtras<LockRegistration>({ name: undefined, isGlobal: true }, (definition, { isGlobal = true }) => ({
      ...definition,
      global: isGlobal,
    }))
    .build();

export const MODULE_NAMES: OptionNames<LockModuleOptions> = { ...SERVICE_NAMES, http: true, logger: true };
export const REGISTRATION_NAMES: OptionNames<LockRegistration> = { name: true, isGlobal: true };
export const ASYNC_NAMES: OptionNames<typeof ASYNC_OPTIONS_TYPE> = {
  ...REGISTRATION_NAMES,
  imports: true,
  inject: true,
  provideInjectionTokensFrom: true,
  useClass: true,
  useExisting: true,
  useFactory: true,
};
