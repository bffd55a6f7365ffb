import { describeMs } from '../../options/describe-given.js';
import { LockConfigurationError } from '../../port/lock.errors.js';
import type { LockStoreContext } from '../../port/lock-store.js';

/** @throws LockConfigurationError unless several commands fit into a lease */
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
