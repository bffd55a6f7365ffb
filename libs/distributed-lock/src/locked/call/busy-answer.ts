import { isLockError, type LockWaitTimeoutError } from '../../port/lock.errors.js';
import type { HeldLock } from '../../lock/context/held-lock.js';
import type { CallOptions, Keys } from '../../lock/lock.js';
import type { LockService } from '../../lock/lock.service.js';
import type { Departure } from './departure.js';
import type { LockedOptions } from '../site/locked.options.js';

/** True for an error of acquiring that `onBusy` is to answer. */
export function answersBusy(
  { onBusy = 'throw' }: LockedOptions,
  error: unknown,
): error is LockWaitTimeoutError {
  return onBusy !== 'throw' && isLockError(error) && error.code === 'LOCK_WAIT_TIMEOUT';
}

export function busyAnswer(
  { onBusy }: LockedOptions,
  busy: LockWaitTimeoutError,
  self: unknown,
  args: readonly unknown[],
): unknown {
  return typeof onBusy === 'function' ? Reflect.apply(onBusy, self, [busy, ...args]) : undefined;
}

/** Acquires for a call that may leave the line: by its departure, and by the signal that it would have without. */
export function acquireFor(
  departure: Departure,
  service: LockService,
  keys: Keys,
  call: CallOptions,
): Promise<HeldLock> {
  const signal = call.signal ?? service.options.defaults.signal;
  if (signal) departure.follow(signal);
  // The service uses no more of a signal than a departure has, and gives no other kind of lock.
  return service.acquire(keys, { ...call, signal: departure as unknown as AbortSignal }) as Promise<HeldLock>;
}
