import { describeGiven } from '../options/describe-given.js';
import { LockKeyError } from '../port/lock.errors.js';

const LONE_SURROGATE = /\p{Surrogate}/u;
/** The common case: an id, of which nothing has to be escaped. */
const UNRESERVED = /^[\w.~-]+$/;

/** A value in a key. Strings must not be empty, numbers must be finite. */
export type KeyValue = string | number | bigint | boolean;

/**
 * Writes one value into a key so that no value can be mistaken for the text around it.
 *
 * Letters `A–Z a–z`, digits and `-` `.` `_` `~` stay (the unreserved characters of RFC 3986). Every other byte of the
 * UTF-8 form becomes `%` and two upper-case hex digits. This is part of the public contract, so that a service in
 * another language can build the same key.
 *
 * @returns `undefined` for a value that cannot be part of a key
 */
export function escapeKeyValue(value: unknown): string | undefined {
  switch (typeof value) {
    case 'string':
      if (UNRESERVED.test(value)) return value;
      return value === '' || LONE_SURROGATE.test(value) ? undefined : percentEncode(value);
    case 'number':
      return Number.isFinite(value) ? escapeKeyValue(String(value)) : undefined;
    case 'bigint':
    case 'boolean':
      return String(value);
    default:
      return undefined;
  }
}

/**
 * Builds a key by hand with the same escaping as the templates of `@Locked`: ``lockKey`goods:${id}` ``.
 *
 * @throws LockKeyError for a value that cannot be part of a key
 * @example
 * ```ts
 * await locks.withLock(lockKey`goods:${'a/b'}`, (lock) => console.log(lock.key)); // goods:a%2Fb
 * ```
 */
export function lockKey(texts: TemplateStringsArray, ...values: readonly KeyValue[]): string {
  return texts.reduce((key, text, i) => {
    const escaped = escapeKeyValue(values[i - 1]);
    if (escaped === undefined) {
      throw new LockKeyError(`Value ${i} after "${key}" is ${kindOf(values[i - 1])}: ${NEEDED}.`, undefined);
    }
    return key + escaped + text;
  });
}

export const NEEDED = 'a key needs a non-empty string, a finite number, a bigint or a boolean';

/** Describes a value without repeating it, because it may be secret. */
export function kindOf(value: unknown): string {
  if (typeof value === 'number') return String(value);
  if (typeof value === 'string' && value !== '') return 'a string of broken UTF-16';
  return Array.isArray(value) && value.length === 0 ? 'an empty list' : describeGiven(value);
}

function percentEncode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
