import { describeGiven } from '../options/describe-given.js';
import { LockConfigurationError } from '../port/lock.errors.js';

/** @throws LockConfigurationError unless `name` is a text, and not an empty one */
export function checkLeaderName(of: string, name: unknown): void {
  if (typeof name === 'string' && name !== '') return;
  throw new LockConfigurationError(
    `${of} takes the name of a leader, as in ${of}('poller'); it was given ${describeGiven(name)}.`,
  );
}

/** The same for a decorator whose name may be left out. */
export function checkOptionalName(of: string, name: unknown): void {
  if (name !== undefined) checkLeaderName(of, name);
}
