import { LockConfigurationError } from '../../port/lock.errors.js';
import type { Lock } from '../../lock/lock.js';
import { refuseStandard } from '../../options/standard-decorators.js';
import type { AnyClass } from '../nest/nest-metadata.js';
import type { LockedSite } from './locked-site.js';

/** A parameter that the lock, or its signal, fills in. */
interface Slot {
  readonly index: number;
  readonly of: (lock: Lock) => unknown;
}

const SLOTS = Symbol.for('nestjs-distributed-lock/slots');

/**
 * The lock that this call of a `@Locked` method holds. Pipes do not get it.
 *
 * Callers leave the argument out, so write `lock?: Lock` on methods that other code calls. It is `undefined` when `when`
 * has decided that no lock is needed. On a method without `@Locked` the application does not start.
 *
 * @example
 * ```ts
 * class Goods { @Locked('goods:<id>') async buy(id: string, @CurrentLock() lock?: Lock) { return lock?.fencingToken; } }
 * ```
 */
export function CurrentLock(): ParameterDecorator {
  return slot('@CurrentLock', (lock) => lock);
}

/**
 * The signal of the lock that this call of a `@Locked` method holds. It aborts when the lock is lost.
 *
 * @example
 * ```ts
 * class Rates { @Locked('rates') async load(url: string, @LockSignal() signal?: AbortSignal) { return fetch(url, { signal }); } }
 * ```
 */
export function LockSignal(): ParameterDecorator {
  return slot('@LockSignal', (lock) => lock.signal);
}

function slot(decorator: string, of: Slot['of']): ParameterDecorator {
  return (target, name, index) => {
    refuseStandard(decorator, name);
    if (name === undefined || typeof index !== 'number') {
      const where = name === undefined ? 'the constructor' : String(name);
      throw new LockConfigurationError(
        `${decorator} on ${where} of ${declaringClass(target).name}: it belongs on a parameter of a method.`,
      );
    }
    Reflect.defineMetadata(SLOTS, [...slotsOf(target, name), { index, of }], target, name);
  };
}

/** The class of a decorated method or parameter. */
export function declaringClass(target: object): AnyClass {
  return (typeof target === 'function' ? target : target.constructor) as AnyClass;
}

/**
 * The slots of a method of this very class. A method that overrides it has its own.
 *
 * @param target the prototype of the class, or the class itself for a static method
 */
export function slotsOf(target: object, method: string | symbol): readonly Slot[] {
  return (Reflect.getOwnMetadata(SLOTS, target, method) as readonly Slot[] | undefined) ?? [];
}

/** The arguments with the lock in the slots that the caller has left out. */
export function fillSlots(
  site: LockedSite,
  args: readonly unknown[],
  lock: Lock | undefined,
): readonly unknown[] {
  const { declaredIn, isStatic, method } = site;
  const slots = slotsOf(isStatic ? declaredIn : (declaredIn.prototype as object), method);
  if (slots.length === 0 || !lock) return args;
  const filled = [...args];
  for (const { index, of } of slots) filled[index] ??= of(lock);
  return filled;
}
