import { isLockError } from '../../port/lock.errors.js';
import type { HeldLock } from '../../lock/context/held-lock.js';
import type { CallOptions, Keys } from '../../lock/lock.js';
import type { LockService } from '../../lock/lock.service.js';
import type { Departure } from './departure.js';
import type { LockedOptions } from '../site/locked.options.js';

/**
 * The answer of `onBusy` to an error of acquiring.
 *
 * @param argsFor gives at least as many arguments of the method as it is asked for
 * @throws the error, if `onBusy` is not for it
 */
export async function busyAnswer(
  { onBusy = 'throw' }: LockedOptions,
  error: unknown,
  self: unknown,
  argsFor: (count: number) => readonly unknown[] | Promise<readonly unknown[]>,
): Promise<unknown> {
  const isBusy = isLockError(error) && error.code === 'LOCK_WAIT_TIMEOUT';
  if (onBusy === 'throw' || !isBusy) throw error;
  if (onBusy === 'skip') return undefined;
  const args = await argsFor(Math.max(0, onBusy.length - 1));
  return Reflect.apply(onBusy, self, [error, ...args]) as unknown;
}

/** Acquires for a call that may leave the queue: by its departure, and by the signal that it would have without one. */
export function acquireFor(
  departure: Departure,
  service: LockService,
  keys: Keys,
  call: CallOptions,
): Promise<HeldLock> {
  const signal = call.signal ?? service.options.defaults.signal;
  if (signal) departure.follow(signal);
  // The service uses no more of a signal than a departure has, and makes no other kind of lock.
  return service.acquire(keys, { ...call, signal: departure as unknown as AbortSignal }) as Promise<HeldLock>;
}
