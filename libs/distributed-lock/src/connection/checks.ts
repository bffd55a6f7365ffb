import { isPromiseLike } from '../common/promises.js';
import type { LockStoreContext } from '../port/lock-store.js';
import { LockConfigurationError, LockKeyError } from '../port/lock.errors.js';
import { describeMs, describeServer } from '../port/option-checks.js';

/** @throws LockConfigurationError unless three commands fit into a lease, so that one slow reply does not lose the lock */
export function checkCommandTimeout(commandTimeoutMs: number, { watchdogTimeoutMs }: LockStoreContext): void {
  if (!Number.isInteger(commandTimeoutMs) || commandTimeoutMs < 1) {
    throw new LockConfigurationError(
      `commandTimeoutMs must be a whole number of ms, 1 or more; it is ${describeMs(commandTimeoutMs)}.`,
    );
  }
  if (watchdogTimeoutMs < 3 * commandTimeoutMs) {
    throw new LockConfigurationError(
      `watchdogTimeoutMs (${watchdogTimeoutMs}) must be at least three times commandTimeoutMs (${commandTimeoutMs}): otherwise one slow answer loses the lock.`,
    );
  }
}

/** @param needed what the store takes, as a sentence, with which the message begins */
export function targetError(needed: string, given: unknown): LockConfigurationError {
  return new LockConfigurationError(`${needed}; it was given ${describeServer(given)}`);
}

/** @throws LockConfigurationError unless the target is an object, such as a client or options, and no promise or array */
export function assertObject(needed: string, target: unknown): asserts target is object {
  const isObject = typeof target === 'object' && target !== null && !Array.isArray(target);
  if (!isObject || isPromiseLike(target)) throw targetError(needed, target);
}

/** Whether an option was given without a value, as one from an environment variable that is not set. */
export function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === '';
}

/** Half of a surrogate pair, without the other half. UTF-8 encodes all of them alike, so two different keys would be one lock. */
const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * @param name `keyPrefix` and the key
 * @param mostBytes the longest name, in bytes of UTF-8
 * @param limit the end of the message, which says where that limit comes from
 * @throws LockKeyError for a name that a back end cannot keep as it is
 */
export function checkNameBytes(name: string, mostBytes: number, limit: string): void {
  const bytes = Buffer.byteLength(name);
  if (bytes > mostBytes) {
    throw new LockKeyError(
      `The key "${name.slice(0, 40)}…" has ${bytes} bytes with its prefix; ${limit}.`,
      name,
    );
  }
  if (LONE_SURROGATE.test(name)) {
    throw new LockKeyError(
      `The key ${JSON.stringify(name)} has half of a surrogate pair, which UTF-8 cannot tell from other halves.`,
      name,
    );
  }
}
