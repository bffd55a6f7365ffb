import { type DynamicModule, Global, Inject, Module } from '@nestjs/common';
import { DiscoveryModule, ModulesContainer } from '@nestjs/core';
import { checkLeader, getLeaderToken, type LeaderOptions, LEADERS } from './leader.js';
import { Leaders } from './leaders.js';

/**
 * Nest runs the hooks of the boot in descending order of the distance of their modules, and those of the shutdown in ascending
 * order. The distance of the root is 1, and that of the module that opens the stores is -1.
 */
const LAST_TO_BOOT = -2;

/** The part that all leaders of an application share. */
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
 * Elects one instance of the application as the leader of a name, and another one when that closes, dies or loses its lock.
 *
 * Each instance waits in the queue of one lock, from the end of its boot. At shutdown it steps down before the hooks of
 * other modules run. Call `enableShutdownHooks()` or `app.close()`.
 */
@Module({})
export class LeaderModule {
  /**
   * Lets this instance stand for election under `name`, and offers a `Leader` to all modules. Import it once for each name,
   * beside `DistributedLockModule`. Modules that import it again share the leader.
   *
   * @throws LockConfigurationError for wrong options; at boot when the registration is missing, when its `defaults` have
   * `leaseMs`, `permits` or `mode: 'shared'`, and for decorators with a name that no leader has
   */
  static forFeature(name: string, options: LeaderOptions = {}): DynamicModule {
    checkLeader(name, options);
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
