import { Inject, Optional } from '@nestjs/common';
import type { ModuleRef } from '@nestjs/core';
import { ServiceInternals } from './lock/events/service-internals.js';
import { LockService } from './lock/lock.service.js';
import { findProvider, refuseStandard } from './nest/metadata.js';
import { LockConfigurationError } from './port/lock.errors.js';

/** Made by `Symbol.for`, so that both builds of this package have the same tokens. */
const token = (kind: string, name: string): symbol => Symbol.for(`nestjs-distributed-lock/${kind}/${name}`);

/**
 * The injection token of a registration's `LockService`, for `inject` of a factory and for `app.get(…)`. For the registration
 * without a name, the class is a token, too.
 */
export function getLockServiceToken(name = 'default'): symbol {
  return token('service', name);
}

/** The code that imports a registration, for messages. */
export function importOf(name = 'default'): string {
  return name === 'default'
    ? 'DistributedLockModule.forRoot(…)'
    : `DistributedLockModule.forRoot({ name: '${name}', … })`;
}

/** The message that several registrations have the same name, and what to do about it. */
export function twinsText(count: number, name = 'default'): string {
  return `${count} DistributedLockModules have the name "${name}": each has a LockService and a store of its own. Import it once, in the root module, or give each a name of its own: forRoot({ name: 'jobs', … }).`;
}

/**
 * Injects the `LockService` of the registration with this name, or of the one without a name. The boot fails if there is no such
 * registration.
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
 * Finds the service of a registration, from any module.
 *
 * @throws LockConfigurationError if no registration has the name, or if a test has replaced its service with a mock
 */
export function findLockService(moduleRef: ModuleRef, name: string | undefined, asker: Asker): LockService {
  const service = findProvider<LockService>(moduleRef, getLockServiceToken(name));
  if (!service) throw noRegistrationError(name, asker);
  if (!ServiceInternals.areIn(service)) throw mockError(name, asker.where, 'is a mock');
  return service;
}

/** Who needs the service, for messages. */
interface Asker {
  readonly where: string;
  /** The option in which the asker names the registration; default `name`. */
  readonly option?: string;
}

export function noRegistrationError(
  name: string | undefined,
  { where, option = 'name' }: Asker,
): LockConfigurationError {
  return new LockConfigurationError(
    name === undefined
      ? `${where}: there is no DistributedLockModule without a name in this application. Import ${importOf()} in its root module, or choose another one by the option ${option}.`
      : `${where}: no DistributedLockModule has the name "${name}". Import ${importOf(name)}, or correct the option ${option}.`,
  );
}

/** @param what what is wrong with the service, as the end of a sentence: `is a mock` */
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

/** Makes Nest set `injectedProperty` on all instances of a class. Optional, because the application may lack the registration. */
export function injectLockService(prototype: object, name: string | undefined): void {
  Inject(getLockServiceToken(name))(prototype, injectedProperty(name));
  Optional()(prototype, injectedProperty(name));
}

/** For each copy of this package that the process has loaded: the file of the copy → its class `LockService`. */
const SHARED = Symbol.for('nestjs-distributed-lock/copies');
const shared = globalThis as { [SHARED]?: Map<string, typeof LockService> };
const copies = (shared[SHARED] ??= new Map<string, typeof LockService>());
// Keyed by file, because a test runner may load the same copy again and again.
copies.set(ownFile(), LockService);

function ownFile(): string {
  try {
    return import.meta.url;
  } catch {
    // `import.meta.url` may be missing in a bundle.
    return 'a bundle';
  }
}

/** The copies of this package that the process has loaded. */
export const loadedCopies = {
  /** The `LockService` classes of the others. A constructor that was compiled against one of them asks Nest for that class. */
  otherServices: (): readonly (typeof LockService)[] =>
    [...copies.values()].filter((it) => it !== LockService),
  /** The warning that there are several, with their places and what to do; `undefined` if there is only one. */
  warning(): string | undefined {
    if (copies.size < 2) return undefined;
    const places = [...copies.keys()].map((file) =>
      file.replace(/^file:\/\/|\/(?:dist\/shared|src\/lock)\/[^/]*$/g, ''),
    );
    return `${copies.size} copies of nestjs-distributed-lock are loaded: ${places.join(' and ')}. Each has classes and errors of its own. Make them one: npm ls nestjs-distributed-lock shows what installs them. A library must have the package in its peerDependencies, and versions that differ must be made the same.`;
  },
};
