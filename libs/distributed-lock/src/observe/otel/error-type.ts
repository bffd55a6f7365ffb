import { isLockError } from '../../port/lock.errors.js';

/** The value of `error.type` for an abandoned wait: the code of the lock error, or `aborted` by the caller's signal. */
export function errorType(error: unknown): string {
  return isLockError(error) ? error.code : 'aborted';
}
