import type { CanActivate, ModuleMetadata, Type } from '@nestjs/common';
import type { ModuleRef } from '@nestjs/core';
import { findLockService } from '../distributed-lock.tokens.js';
import type { LockService } from '../lock/lock.service.js';
import { describeGiven } from '../options/describe-given.js';
import {
  checkOptions,
  BOOLEAN_OPTION,
  REGISTRATION_NAME,
  type OptionRules,
} from '../options/option-names.js';
import { LockConfigurationError } from '../port/lock.errors.js';

/** Options of `LockAdminModule.forRoot`. */
export interface LockAdminOptions {
  /**
   * Decides who gets in: a guard of Nest, as a class or an object. It is asked at each request, for the page and for each route.
   * There is no default.
   */
  readonly guard: Type<CanActivate> | CanActivate;
  /** The modules whose providers a `guard` class injects; global modules need not be named. */
  readonly imports?: NonNullable<ModuleMetadata['imports']>;
  /** Where the page is, after the global prefix of the application; default `'locks'`. */
  readonly path?: string;
  /** Offers to take a lock from its holder; default `false`: operators only read. */
  readonly canRelease?: boolean;
  /**
   * Names the operator who sends a request, for the event and the log of a release, and for the holder that loses its lock. Gets
   * the request of Express or Fastify, which the guard has passed. Default: `'an operator'`. If it throws, nothing is released.
   */
  readonly actor?: (request: any) => string | undefined | Promise<string | undefined>;
  /** The registration of `DistributedLockModule` to show; default: the one without a name. */
  readonly name?: string;
}

/** By `Symbol.for`, so that another copy of this package sees the paths of these modules. */
export const ADMIN_OPTIONS = Symbol.for('nestjs-distributed-lock/admin-options');

const RULES: OptionRules<LockAdminOptions> = {
  guard: true,
  imports: true,
  path: [(value) => typeof value === 'string' && /[^/\s]/.test(value), "a text such as 'locks'"],
  canRelease: BOOLEAN_OPTION,
  actor: [(value) => typeof value === 'function', 'a function of the request that names the operator'],
  name: REGISTRATION_NAME,
};

/** @throws LockConfigurationError without a guard, and for options that are unknown or of another type */
export function checkAdmin(options: LockAdminOptions): void {
  checkOptions('LockAdminModule.forRoot', options, RULES);
  if (!mayBeGuard(options.guard)) throw guardError(options.guard);
}

/** @throws LockConfigurationError when there is no such registration */
export function adminLocks(moduleRef: ModuleRef, { name }: LockAdminOptions): LockService {
  return findLockService(moduleRef, name, { where: 'LockAdminModule.forRoot' });
}

/** A class may make `canActivate` in its constructor, as a field does: its instance is looked at when the application boots. */
function mayBeGuard(guard: unknown): boolean {
  return typeof guard === 'function' ? guard.prototype !== undefined : isGuard(guard);
}

export function isGuard(guard: unknown): boolean {
  return typeof (guard as CanActivate | null | undefined)?.canActivate === 'function';
}

export function guardError(guard: unknown): LockConfigurationError {
  return new LockConfigurationError(
    `LockAdminModule.forRoot needs a guard, because its page names keys, hosts and processes; it was given ${describeGiven(guard)}. Pass a class or an object with canActivate(): guard: OpsGuard.`,
  );
}
