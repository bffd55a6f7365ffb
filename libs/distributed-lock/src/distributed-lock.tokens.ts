import { Inject, Optional, type Type } from '@nestjs/common';
import type { ModuleRef } from '@nestjs/core';
import { isLockService } from './lock/events/service-internals.js';
import type { LockService } from './lock/lock.service.js';
import { refuseStandard } from './options/standard-decorators.js';
import { LockConfigurationError } from './port/lock.errors.js';

/** By `Symbol.for`, so that both builds of this package have the same tokens. */
const token = (kind: string, name: string): symbol => Symbol.for(`nestjs-distributed-lock/${kind}/${name}`);

/**
 * The token of a registration's `LockService`, for `inject` of a factory and for `app.get(…)`. The class itself is a token of
 * the registration without a name.
 */
export function getLockServiceToken(name = 'default'): symbol {
  return token('service', name);
}

/** How a registration is imported, for messages. */
export function importOf(name = 'default'): string {
  return name === 'default'
    ? 'DistributedLockModule.forRoot(…)'
    : `DistributedLockModule.forRoot({ name: '${name}', … })`;
}

/** That several registrations have one name, and what to do. */
export function twinsText(count: number, name = 'default'): string {
  return `${count} DistributedLockModules have the name "${name}": each has a LockService and a store of its own. Import it once, in the root module, or give each a name of its own: forRoot({ name: 'jobs', … }).`;
}

/**
 * Injects the `LockService` of a named registration; without a name, that of the registration without one. Nest stops the boot
 * if there is no such registration.
 *
 * @example
 * ```ts
 * class Jobs { constructor(@InjectLockService('jobs') private readonly locks: LockService) {} }
 * ```
 */
export function InjectLockService(name?: string): ParameterDecorator & PropertyDecorator {
  const inject = Inject(getLockServiceToken(name));
  return (target: object, key: string | symbol | undefined, index?: number) => {
    refuseStandard('@InjectLockService', key);
    inject(target, key, index as number);
  };
}

/**
 * The service of a registration, whichever module asks.
 *
 * @throws LockConfigurationError if no registration has the name, or if a test has replaced its service with a mock
 */
export function findLockService(moduleRef: ModuleRef, name: string | undefined, asker: Asker): LockService {
  const service = findProvider<LockService>(moduleRef, getLockServiceToken(name));
  if (!service) throw noRegistrationError(name, asker);
  assertGenuine(service, name, asker.where);
  return service;
}

/** What asks for a service, for messages. */
interface Asker {
  readonly where: string;
  /** The option that names the registration; default `name`. */
  readonly option?: string;
}

export function noRegistrationError(
  name: string | undefined,
  { where, option = 'name' }: Asker,
): LockConfigurationError {
  return new LockConfigurationError(
    `${where}: no DistributedLockModule has the name "${name ?? 'default'}". Import ${importOf(name)}, or correct the option ${option}.`,
  );
}

/** The provider of a token, of any module of the application unless `strict`; `undefined` if there is none for all requests. */
export function findProvider<T>(
  moduleRef: ModuleRef,
  token: symbol | Type<T>,
  strict = false,
): T | undefined {
  try {
    return moduleRef.get<T>(token, { strict });
  } catch {
    return undefined;
  }
}

/** @throws LockConfigurationError for a mock, under which a method would run without the lock, or not at all */
export function assertGenuine(service: LockService, name: string | undefined, where: string): void {
  if (!isLockService(service)) throw mockError(name, where, 'is a mock');
}

/** @param what what is wrong with the service of the registration */
export function mockError(name: string | undefined, where: string, what: string): LockConfigurationError {
  const [token, options] = name === undefined ? ['', ''] : [`'${name}'`, `{ name: '${name}' }`];
  return new LockConfigurationError(
    `${where}: the LockService here ${what}. Give the test locks in memory: const locks = new TestLocks(${options}), from nestjs-distributed-lock/testing, and { provide: getLockServiceToken(${token}), useValue: locks }, or locks.injectInto(…) around the object.`,
  );
}

/** The token of a registration's `LockHttpStatus`. */
export function getLockHttpToken(name = 'default'): symbol {
  return token('http', name);
}

/** The property of objects with locked methods into which Nest injects the service of a registration. */
export function injectedProperty(name = 'default'): symbol {
  return token('injected', name);
}

/** Makes Nest set that property on all objects of a class. Optional, because a registration may be missing. */
export function injectLockService(prototype: object, name: string | undefined): void {
  Inject(getLockServiceToken(name))(prototype, injectedProperty(name));
  Optional()(prototype, injectedProperty(name));
}
