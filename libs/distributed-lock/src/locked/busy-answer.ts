import { isLockError, type LockWaitTimeoutError } from '../lock/lock.errors.js';
import type { CallOptions } from '../lock/lock.js';
import type { Departure } from './departure.js';
import type { LockedOptions } from './locked.options.js';

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

/** What the service may know of the options. With a departure that is what ends the wait: it follows the given signal. */
export function callOptions(options: LockedOptions, departure?: Departure): CallOptions {
  const { waitMs, leaseMs, fair, holdAtLeastMs, signal } = options;
  if (signal) departure?.follow(signal);
  return { waitMs, leaseMs, fair, holdAtLeastMs, signal: departure ?? signal };
}
