import type { CanActivate, ModuleMetadata, Type } from '@nestjs/common';
import { describeGiven } from '../options/describe-given.js';
import { checkOptionNames, type OptionNames } from '../options/option-names.js';
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

const OPTION_NAMES: OptionNames<LockAdminOptions> = {
  guard: true,
  imports: true,
  path: true,
  canRelease: true,
  actor: true,
  name: true,
};

/** @throws LockConfigurationError without a guard, and for options that are unknown or of another type */
export function checkAdmin(options: LockAdminOptions): void {
  checkOptionNames('LockAdminModule.forRoot', options, OPTION_NAMES);
  const { guard, path, canRelease, actor, name } = options;
  if (!mayBeGuard(guard)) refuseGuard(guard);
  if (path !== undefined && (typeof path !== 'string' || !/[^/\s]/.test(path))) {
    refuse(`: path must be a text such as 'locks'; it is ${describeGiven(path)}`);
  }
  if (canRelease !== undefined && typeof canRelease !== 'boolean') {
    refuse(`: canRelease must be true or false; it is ${describeGiven(canRelease)}`);
  }
  if (actor !== undefined && typeof actor !== 'function') {
    refuse(
      `: actor must be a function of the request that names the operator; it is ${describeGiven(actor)}`,
    );
  }
  if (name !== undefined && (typeof name !== 'string' || name === '')) {
    refuse(`: name must be the name of a registration; it is ${describeGiven(name)}`);
  }
}

/** A class may make `canActivate` in its constructor, as a field does: its instance is looked at when the application boots. */
function mayBeGuard(guard: unknown): boolean {
  return typeof guard === 'function' ? guard.prototype !== undefined : isGuard(guard);
}

export function isGuard(guard: unknown): boolean {
  return typeof (guard as CanActivate | null | undefined)?.canActivate === 'function';
}

export function refuseGuard(guard: unknown): never {
  refuse(
    ` needs a guard, because its page names keys, hosts and processes; it was given ${describeGiven(guard)}. Pass a class or an object with canActivate(): guard: OpsGuard`,
  );
}

function refuse(what: string): never {
  throw new LockConfigurationError(`LockAdminModule.forRoot${what}.`);
}
