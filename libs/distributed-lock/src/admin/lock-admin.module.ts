import { type CanActivate, type DynamicModule, Inject, Module, type OnModuleInit } from '@nestjs/common';
import { ModuleRef, ModulesContainer } from '@nestjs/core';
import { findLockService } from '../distributed-lock.tokens.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { checkOptions, describeGiven, type OptionRules, RULE } from '../port/option-checks.js';
import { EventStreams } from './event-stream.js';
import { ADMIN_OPTIONS, adminController, type LockAdminOptions } from './lock-admin.controller.js';

/**
 * Serves a page and a JSON API for operators who investigate a lock that does not become free. Works with Express and Fastify.
 *
 * Import it one time for each registration of `DistributedLockModule`, each with a `path` of its own.
 *
 * @example
 * ```ts
 * import { LockAdminModule } from 'nestjs-distributed-lock/admin';
 *
 * class OpsGuard { canActivate(): boolean { return process.env['NODE_ENV'] !== 'production'; } }
 * LockAdminModule.forRoot({ guard: OpsGuard });
 * ```
 */
@Module({})
export class LockAdminModule implements OnModuleInit {
  constructor(
    @Inject(ADMIN_OPTIONS) private readonly options: LockAdminOptions,
    @Inject(ModulesContainer) private readonly modules: ModulesContainer,
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
  ) {}

  /**
   * @throws LockConfigurationError without a `guard` and for wrong options; at boot when the registration is missing, when the
   * guard has no `canActivate`, and when two of these modules have the same path
   */
  static forRoot(options: LockAdminOptions): DynamicModule {
    checkAdmin(options);
    return {
      module: LockAdminModule,
      imports: [...(options.imports ?? [])],
      controllers: [adminController(options.path ?? 'locks', options.guard)],
      providers: [{ provide: ADMIN_OPTIONS, useValue: options }, EventStreams],
    };
  }

  onModuleInit(): void {
    this.checkGuard();
    findLockService(this.moduleRef, this.options.name, { where: 'LockAdminModule.forRoot' });
    const twins = [...this.modules.values()].filter((module) => module.providers.has(ADMIN_OPTIONS));
    const paths = twins.map((it) => pathOf(it.getProviderByKey<LockAdminOptions>(ADMIN_OPTIONS).instance));
    const path = pathOf(this.options);
    if (paths.filter((it) => it === path).length < 2) return;
    throw new LockConfigurationError(
      `LockAdminModule.forRoot was called twice for the path "${path}". Give each registration a path of its own.`,
    );
  }

  /**
   * Checks at boot that the guard has `canActivate`. If it is request-scoped, Nest creates it only for a request, and would
   * answer 500 without it.
   */
  private checkGuard(): void {
    const { guard } = this.options;
    if (typeof guard !== 'function') return;
    const ownModule = [...this.modules.values()].find(
      (module) =>
        module.metatype === LockAdminModule &&
        module.getProviderByKey(ADMIN_OPTIONS).instance === this.options,
    );
    const injectable = ownModule?.injectables.get(guard);
    if (injectable?.isDependencyTreeStatic() && !isGuard(injectable.instance)) throw guardError(guard);
  }
}

function pathOf({ path = 'locks' }: LockAdminOptions): string {
  return path.replace(/^\/+|\/+$/g, '');
}

const RULES: OptionRules<LockAdminOptions> = {
  guard: true,
  imports: true,
  path: [(value) => typeof value === 'string' && /[^/\s]/.test(value), "a text such as 'locks'"],
  canRelease: RULE.boolean,
  actor: [(value) => typeof value === 'function', 'a function of the request that names the operator'],
  name: RULE.registration,
};

/**
 * Checks the options.
 *
 * @throws LockConfigurationError without a guard, and for options that are unknown or of the wrong type
 */
function checkAdmin(options: LockAdminOptions): void {
  checkOptions('LockAdminModule.forRoot', options, RULES);
  if (!mayBeGuard(options.guard)) throw guardError(options.guard);
}

/** Returns true for any class: it may assign `canActivate` in its constructor, so its instance is checked at boot. */
function mayBeGuard(guard: unknown): boolean {
  return typeof guard === 'function' ? guard.prototype !== undefined : isGuard(guard);
}

function isGuard(guard: unknown): boolean {
  return typeof (guard as CanActivate | null | undefined)?.canActivate === 'function';
}

function guardError(guard: unknown): LockConfigurationError {
  return new LockConfigurationError(
    `LockAdminModule.forRoot needs a guard, because its page names keys, hosts and processes; it was given ${describeGiven(guard)}. Pass a class or an object with canActivate(): guard: OpsGuard.`,
  );
}
