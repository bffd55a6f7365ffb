import { LockKeyError } from '../../port/lock.errors.js';

/** Half of a character. UTF-8 encodes all of them alike, so that two keys would be one lock. */
const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * @param name `keyPrefix` and the key
 * @param mostBytes of the name in UTF-8
 * @param limit the end of the message, which says where the limit comes from
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
