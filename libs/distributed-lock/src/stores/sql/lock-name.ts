import { LockKeyError } from '../../port/lock.errors.js';
import { checkNameBytes } from '../common/name-bytes.js';

/** An index of the database has no room for more. */
const MOST_BYTES = 2000;

/** @param name `keyPrefix` and the key @throws LockKeyError for a name that a text column cannot hold as it is */
export function checkRowName(name: string): void {
  checkNameBytes(name, MOST_BYTES, `at most ${MOST_BYTES} fit into the lock table`);
  if (name.includes('\0')) {
    throw new LockKeyError(
      `The key ${JSON.stringify(name)} has a NUL character, which no text column holds.`,
      name,
    );
  }
}
