import { LockStoreError } from '../../../port/lock.errors.js';
import type { Claim } from '../../../port/claim.js';
import type { RedisClient } from '../redis.client.js';
import { type RedisKeys, permitsKey } from '../redis.keys.js';
import { textOf } from '../../common/connection/connection-errors.js';

/** Errors of our own scripts, see holders.lua. */
const NO_LOCK = 'data of the application';
const TWINS = 'permits of two names';

const OWN_NAME =
  'a lock needs a name of its own, and one name is either a lock or permits. Choose another key, or set keyPrefix (now part of the name) to keep locks apart from data.';

interface Lock {
  readonly key: string;
  readonly kind: Claim['kind'];
  readonly names: RedisKeys;
}

/** The server, or one of our scripts, says that a key holds something else. */
export function isWrongType(error: unknown): boolean {
  return /\bWRONGTYPE\b/.test(textOf(error));
}

/**
 * Explains that a key of the lock holds something else. A lock that is named like the data that it protects is the
 * classic mistake.
 *
 * @returns `undefined` for any other error
 */
export async function explainWrongType(
  client: RedisClient,
  { key, kind, names }: Lock,
  cause: unknown,
): Promise<LockStoreError | undefined> {
  if (!isWrongType(cause)) return undefined;
  const text = textOf(cause);
  const [lock, queue, waiterOptions, token] = names;
  const refused = (message: string) => new LockStoreError(message, key, 'refused', { cause });
  const typeOf = (name: string) => client.call('type', [name], name) as Promise<string>;
  const found = await typeOf(lock);
  if (found === 'none' || found === (kind === 'permits' ? 'string' : 'hash')) {
    const parts = { [queue]: 'zset', [waiterOptions]: 'hash', [token]: 'string' };
    if (kind === 'permits') parts[permitsKey(lock)] = 'zset';
    for (const [part, expected] of Object.entries(parts)) {
      const type = await typeOf(part);
      if (type !== 'none' && type !== expected)
        return refused(
          `"${part}" is a ${type} in Redis, where the lock "${lock}" keeps something else. Choose another key for the lock, or delete that one if nobody needs it.`,
        );
    }
  }
  if (text.includes(TWINS))
    return refused(
      `The permits of "${lock}" are kept in "${permitsKey(lock)}", by Redisson's rule, and so are those of the same name without or with its braces, which are in use. Choose another key.`,
    );
  const data = text.includes(NO_LOCK) ? 'it holds data of the application, which is left as it is; ' : '';
  return refused(`"${lock}" is a ${found} in Redis, not a lock of this kind: ${data}${OWN_NAME}`);
}
