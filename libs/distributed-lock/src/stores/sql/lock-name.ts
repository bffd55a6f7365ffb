import { LockKeyError } from '../../port/lock.errors.js';

/** An index of the database has no room for more. */
const MOST_BYTES = 2000;
/** Half of a character. In UTF-8 all of them become one and the same character, and two keys one lock. */
const LONE_SURROGATE = /\p{Surrogate}/u;

/** @param name `keyPrefix` and the key @throws LockKeyError for a name that a text column cannot hold as it is */
export function checkLockName(name: string): void {
  const bytes = Buffer.byteLength(name);
  if (bytes > MOST_BYTES) {
    throw new LockKeyError(
      `The key "${name.slice(0, 40)}…" has ${bytes} bytes with its prefix; at most ${MOST_BYTES} fit into the lock table.`,
      name,
    );
  }
  if (name.includes('\0')) {
    throw new LockKeyError(
      `The key ${JSON.stringify(name)} has a NUL character, which no text column holds.`,
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
