import { isPromiseLike } from '../common/promises.js';
import type { LockStoreContext } from '../port/lock-store.js';
import { LockConfigurationError, LockKeyError } from '../port/lock.errors.js';
import { describeMs, describeGiven } from '../port/option-checks.js';

/** @throws LockConfigurationError unless `commandTimeoutMs` is a whole number and at most a third of the lease */
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

/** @param needed first sentence of the message: what the store function takes as its target */
export function targetError(needed: string, given: unknown): LockConfigurationError {
  return new LockConfigurationError(`${needed}; it was given ${describeServer(given)}`);
}

/** @throws LockConfigurationError unless the target is an object, and no promise or array */
export function assertObject(needed: string, target: unknown): asserts target is object {
  const isObject = typeof target === 'object' && target !== null && !Array.isArray(target);
  if (!isObject || isPromiseLike(target)) throw targetError(needed, target);
}

/** Whether an option is present without a value, for example because its environment variable is not set. */
export function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === '';
}

/** UTF-8 encodes all halves of surrogate pairs as the same bytes, so two different keys would share one lock. */
const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * @param name `keyPrefix` and the key together
 * @param limit end of the message: which part of the back end sets the limit
 * @throws LockKeyError for a name that is too long, or that the back end would change when it stores it
 */
export function checkNameBytes(name: string, mostBytes: number, limit: string): void {
  const bytes = Buffer.byteLength(name);
  if (bytes > mostBytes) {
    const message = `The key "${name.slice(0, 40)}…" has ${bytes} bytes with its prefix; ${limit}.`;
    throw new LockKeyError(message, name);
  }
  if (LONE_SURROGATE.test(name)) {
    const message = `The key ${JSON.stringify(name)} has half of a surrogate pair, which UTF-8 cannot tell from other halves.`;
    throw new LockKeyError(message, name);
  }
}

/** Describes a value that should have been the address of a server. */
export function describeServer(value: unknown): string {
  const isMissing = value === undefined || value === '';
  return `${describeGiven(value)}${isMissing ? ': is its environment variable set?' : '.'}`;
}
