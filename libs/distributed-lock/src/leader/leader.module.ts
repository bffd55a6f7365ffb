import { type DynamicModule, Global, Inject, Module } from '@nestjs/common';
import { DiscoveryModule, ModulesContainer } from '@nestjs/core';
import { checkOptions, RULE } from '../port/option-checks.js';
import { checkLeaderName, getLeaderToken, type LeaderOptions, LEADERS } from './leader.js';
import { Leaders } from './leaders.js';

/**
 * The `distance` of the module below: its boot hooks run last and its shutdown hooks first. Nest runs the hooks of the boot in descending
 * order of `distance`, and those of the shutdown in ascending order. The root module has 1, and the module that opens the stores has -1.
 */
const LAST_TO_BOOT = -2;

/** The module of the providers that all leaders of an application share. */
@Global()
@Module({
  imports: [DiscoveryModule],
  providers: [Leaders, { provide: LEADERS, useExisting: Leaders }],
  exports: [Leaders, LEADERS],
})
class LeadersModule {
  constructor(@Inject(ModulesContainer) modules: ModulesContainer) {
    for (const module of modules.values())
      if (module.metatype === LeadersModule) module.distance = LAST_TO_BOOT;
  }
}

/**
 * Elects one instance of the application as the leader of a name, and another one if that instance closes, dies or loses its
 * lock.
 *
 * All instances wait in the queue of one lock, from the end of their boot. At shutdown an instance steps down before the hooks of other
 * modules run. Call `enableShutdownHooks()` or `app.close()`.
 */
@Module({})
export class LeaderModule {
  /**
   * Lets this instance stand for election under `name`, and offers a `Leader` to all modules. Import it once for each name, beside
   * `DistributedLockModule`. Modules that import it again share the leader.
   *
   * @throws LockConfigurationError for wrong options; at boot when the registration is missing, when its `defaults` have `leaseMs`,
   * `permits` or `mode: 'shared'`, and for decorators with a name that no leader has
   */
  static forFeature(name: string, options: LeaderOptions = {}): DynamicModule {
    checkLeaderName('LeaderModule.forFeature', name);
    checkOptions('LeaderModule.forFeature', options, { service: RULE.registration, keyPrefix: RULE.text });
    const token = getLeaderToken(name);
    const leader = {
      provide: token,
      useFactory: (leaders: Leaders) => leaders.add(name, options),
      inject: [Leaders],
    };
    return {
      module: LeaderModule,
      global: true,
      imports: [LeadersModule],
      providers: [leader],
      exports: [token],
    };
  }
}
