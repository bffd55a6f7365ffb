import { isPromiseLike } from '../../../async-context/maybe-promise.js';
import { describeServer } from '../../../options/describe-given.js';
import { LockConfigurationError } from '../../../port/lock.errors.js';

/** @param needed says what the store takes. Each message about its target begins with it */
export function refusedTarget(needed: string, given: unknown): LockConfigurationError {
  return new LockConfigurationError(`${needed}; it was given ${describeServer(given)}`);
}

/** @throws LockConfigurationError unless the target is an object, be it a client or options */
export function assertObject(needed: string, target: unknown): asserts target is object {
  const isObject = typeof target === 'object' && target !== null && !Array.isArray(target);
  if (!isObject || isPromiseLike(target)) throw refusedTarget(needed, target);
}

/** True for an option that names nothing, such as one from an environment variable that is not set. */
export function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === '';
}
