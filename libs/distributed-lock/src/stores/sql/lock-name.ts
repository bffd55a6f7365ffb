import { LockKeyError } from '../../port/lock.errors.js';
import { checkNameBytes } from '../common/name-bytes.js';

/** The longest name in bytes, which fits into the index of each database. */
const MAX_BYTES = 2000;

const INTRODUCTION = 'nest_lock_client:';

/** The name of the row with the introduction of one client. It belongs to no lock. */
export function introductionRow(clientId: string): string {
  return INTRODUCTION + clientId;
}

export function isIntroduction(name: string): boolean {
  return name.startsWith(INTRODUCTION);
}

/** @param name `keyPrefix` and the key @throws LockKeyError for a name that a text column cannot hold as it is */
export function checkRowName(name: string): void {
  checkNameBytes(name, MAX_BYTES, `at most ${MAX_BYTES} fit into the lock table`);
  if (name.includes('\0')) {
    throw new LockKeyError(
      `The key ${JSON.stringify(name)} has a NUL character, which no text column holds.`,
      name,
    );
  }
}

/** @throws LockKeyError for a name that no row can have, and for one of an introduction */
export function checkLockName(name: string): void {
  checkRowName(name);
  if (!isIntroduction(name)) return;
  throw new LockKeyError(
    `"${name}" is the name of a row in which a client tells who it is. Choose another key.`,
    name,
  );
}
