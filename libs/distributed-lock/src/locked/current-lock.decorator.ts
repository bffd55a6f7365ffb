import type { Lock } from '../lock/lock.js';
import { ParameterSlots } from '../nest/parameter-names.js';
import type { LockedSite } from './locked.options.js';

/**
 * Records which parameters of a method are decorated with `@CurrentLock()` or `@LockSignal()`, so that the wrapper fills them in.
 */
export const LOCK_SLOTS = new ParameterSlots<Lock>(Symbol.for('nestjs-distributed-lock/slots'));

/**
 * The lock that this call of a `@Locked` method holds. Pipes do not get it.
 *
 * Callers leave the argument out, so write `lock?: Lock` on methods that other code calls. It is `undefined` when `when`
 * has decided that no lock is needed. On a method without `@Locked` the application does not start.
 *
 * @example
 * ```ts
 * class Stock {@Locked('stock') async count(@CurrentLock() lock?: Lock) { return lock?.fencingToken; }}
 * ```
 */
export function CurrentLock(): ParameterDecorator {
  return LOCK_SLOTS.decorator('@CurrentLock', (lock) => lock);
}

/**
 * The signal of the lock that this call of a `@Locked` method holds. It aborts when the lock is lost.
 *
 * @example
 * ```ts
 * class Rates {@Locked('rates') async load(@LockSignal() signal?: AbortSignal) { return fetch('https://rates.example', { signal }); }}
 * ```
 */
export function LockSignal(): ParameterDecorator {
  return LOCK_SLOTS.decorator('@LockSignal', (lock) => lock.signal);
}

/** Returns the arguments, with the lock filled in for each decorated parameter that the caller has left out. */
export function fillSlots(
  { declaredIn, isStatic, method }: LockedSite,
  args: readonly unknown[],
  lock: Lock | undefined,
): readonly unknown[] {
  if (!lock) return args;
  const target = isStatic ? declaredIn : (declaredIn.prototype as object);
  return LOCK_SLOTS.fill({ target, method }, args, lock);
}
