import { Inject, Optional } from '@nestjs/common';
import { refuseStandard } from './checks/standard-decorators.js';

/** By `Symbol.for`, so that both builds of this package mean the same provider. */
const token = (kind: string, name: string): symbol => Symbol.for(`nestjs-distributed-lock/${kind}/${name}`);

/** The provider of one registration's `LockService`. The default registration also answers to the class itself. */
export function getLockServiceToken(name = 'default'): symbol {
  return token('service', name);
}

/** Injects the `LockService` of a named registration; without a name the same as injecting `LockService` by type. */
export function InjectLockService(name?: string): ParameterDecorator & PropertyDecorator {
  const inject = Inject(getLockServiceToken(name));
  return (target: object, key: string | symbol | undefined, index?: number) => {
    refuseStandard('@InjectLockService', key);
    inject(target, key, index as number);
  };
}

/** The provider of one registration's `LockHttpStatus`. */
export function getLockHttpToken(name = 'default'): symbol {
  return token('http', name);
}

/** The property of objects with locked methods that Nest puts the service of a registration into. */
export function injectedProperty(name = 'default'): symbol {
  return token('injected', name);
}

/** Asks Nest for that property on all objects of a class; it stays away where there is no registration. */
export function injectLockService(prototype: object, name: string | undefined): void {
  Inject(getLockServiceToken(name))(prototype, injectedProperty(name));
  Optional()(prototype, injectedProperty(name));
}
