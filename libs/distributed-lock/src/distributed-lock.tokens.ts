import { Inject, Optional, type Type } from '@nestjs/common';
import type { ModuleRef } from '@nestjs/core';
import { isLockService } from './lock/events/service-internals.js';
import { LockService } from './lock/lock.service.js';
import { refuseStandard } from './nest/metadata.js';
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
    name === undefined
      ? `${where}: there is no DistributedLockModule in this application. Import ${importOf()} in its root module.`
      : `${where}: no DistributedLockModule has the name "${name}". Import ${importOf(name)}, or correct the option ${option}.`,
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

/** The `LockService` of each copy of this package that the process has loaded, by the file that it comes from. */
const SHARED = Symbol.for('nestjs-distributed-lock/copies');
const shared = globalThis as { [SHARED]?: Map<string, typeof LockService> };
const copies = (shared[SHARED] ??= new Map<string, typeof LockService>());
// A test runner that loads modules again and again has one copy.
copies.set(ownFile(), LockService);

function ownFile(): string {
  try {
    return import.meta.url;
  } catch {
    // In some bundles code has no file.
    return 'a bundle';
  }
}

/** The classes that other copies call `LockService`: a constructor that is compiled against one of them asks for that. */
export function otherServices(): readonly (typeof LockService)[] {
  return [...copies.values()].filter((it) => it !== LockService);
}

/** That several copies are loaded, which they are, and what to do. `undefined` if there is one. */
export function copiesText(): string | undefined {
  if (copies.size < 2) return undefined;
  const places = [...copies.keys()].map((file) =>
    file.replace(/^file:\/\/|\/(?:dist\/shared|src\/lock)\/[^/]*$/g, ''),
  );
  return `${copies.size} copies of nestjs-distributed-lock are loaded: ${places.join(' and ')}. Each has classes and errors of its own. Make them one: npm ls nestjs-distributed-lock shows what installs them. A library must have the package in its peerDependencies, and versions that differ must be made the same.`;
}
