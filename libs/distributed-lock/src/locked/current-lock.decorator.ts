import type { Lock } from '../lock/lock.js';
import type { AnyClass, LockedSite } from './locked-site.js';

interface Slot {
  readonly index: number;
  readonly of: (lock: Lock) => unknown;
}

const SLOTS = Symbol.for('nestjs-distributed-lock/slots');

/**
 * The lock that this call of a `@Locked` method holds; pipes never see it.
 *
 * Callers leave the argument out, so it is written `lock?: Lock` on methods that other code calls. It stays `undefined`
 * when `when` has decided that no lock is needed. On a method without `@Locked` the application does not start.
 */
export function CurrentLock(): ParameterDecorator {
  return slot((lock) => lock);
}

/** The signal of the lock that this call of a `@Locked` method holds: it aborts when the lock is lost. */
export function LockSignal(): ParameterDecorator {
  return slot((lock) => lock.signal);
}

function slot(of: Slot['of']): ParameterDecorator {
  return (target, name, index) => {
    const cls = declaringClass(target);
    if (name === undefined)
      throw new TypeError('@CurrentLock and @LockSignal belong on parameters of methods.');
    Reflect.defineMetadata(SLOTS, [...slotsOf(cls, name), { index, of }], cls, name);
  };
}

/** The class a method decorator or a parameter decorator stands in. */
export function declaringClass(target: object): AnyClass {
  return (typeof target === 'function' ? target : target.constructor) as AnyClass;
}

/** Of the method that this very class declares: a method that overrides it has its own. */
export function slotsOf(cls: AnyClass, method: string | symbol): readonly Slot[] {
  return (Reflect.getOwnMetadata(SLOTS, cls, method) as readonly Slot[] | undefined) ?? [];
}

/** The arguments with the lock in the places that ask for it and that the caller has left out. */
export function fillSlots(
  site: LockedSite,
  args: readonly unknown[],
  lock: Lock | undefined,
): readonly unknown[] {
  const slots = slotsOf(site.declaredIn, site.method);
  if (slots.length === 0 || !lock) return args;
  const filled = [...args];
  for (const { index, of } of slots) filled[index] ??= of(lock);
  return filled;
}
