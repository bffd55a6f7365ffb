import { textOf } from '../../connection/connection-errors.js';
import type { Claim } from '../../port/lock-store.js';
import { LockStoreError } from '../../port/lock.errors.js';
import type { RedisClient } from '../client.js';
import { permitsKey, type RedisKeys } from '../keys.js';

/** The error texts of our own scripts, as holders.lua has them. */
const NO_LOCK = 'data of the application';
const TWINS = 'permits of two names';

const OWN_NAME =
  'a lock needs a name of its own, and one name is either a lock or permits. Choose another key, or set keyPrefix (now part of the name) to keep locks apart from data.';

interface Lock {
  readonly key: string;
  readonly kind: Claim['kind'];
  readonly names: RedisKeys;
}

/** Whether the server or one of our scripts refused because a key holds something that is no lock. */
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

/** Explains the refusals of a server whose user lacks a right: in the server's words, with the command that adds what is missing. */
export class AccessRights {
  private readonly told = new Set<string>();

  constructor(
    private readonly lockUser: LockUser,
    private readonly tell: (error: LockStoreError) => void,
  ) {}

  /** @param cause an error of the server for which `isDenied` is true */
  refusal(cause: unknown, key: string | undefined): LockStoreError {
    const message = `Redis refused: user "${this.lockUser.user}" lacks rights that a lock needs (${textOf(cause)}). ${this.rule(rightsOf(this.lockUser))}`;
    return new LockStoreError(message, key, 'refused', { cause });
  }

  /** Reports that the user lacks the right to subscribe or to unsubscribe. Without it locks still work, but slowly. */
  onNotSubscribed(error: unknown): void {
    const [, command] = /permissions to run the '([\w|]+)' command/.exec(textOf(error)) ?? [];
    if (!command || this.told.has(command)) return;
    this.told.add(command);
    const message = `User "${this.lockUser.user}" may not subscribe, so waiters get their locks by polling. ${this.rule(`+${command}`)}`;
    this.tell(new LockStoreError(message, undefined, 'refused'));
  }

  private rule(rights: string): string {
    return `Add what is missing: ACL SETUSER ${this.lockUser.user} ${rights}`;
  }
}

/** The commands that our connections and scripts send. SECURITY.md lists the same ones, and a test compares them. */
const COMMANDS =
  '+client|setname +info +time +ping +type +subscribe +unsubscribe +script|exists +script|load +evalsha +eval +scan +exists +del +pexpire +pttl +get +getex +set +incrby +hset +hget +hmget +hgetall +hdel +hkeys +hlen +hexists +strlen +lindex +zadd +zrem +zremrangebyscore +zscore +zcard +zrange +zrangebyscore +publish +pubsub|numsub';
const ON_A_CLUSTER =
  '+asking +ssubscribe +sunsubscribe +spublish +pubsub|shardnumsub +cluster|slots +cluster|info';

interface LockUser {
  readonly user: string;
  readonly keyPrefix: string;
  readonly isCluster: boolean;
  readonly countsReplicas: boolean;
}

/** All rights that a lock needs, in the words of an ACL rule. */
function rightsOf({ keyPrefix, isCluster, countsReplicas }: LockUser): string {
  const locks = `${keyPrefix.replace(/[*?[\]\\]/g, '\\$&')}*`;
  const names = `~${locks} ~{${locks} ~nest_lock_*${locks} ~redisson_*${locks} &nest_lock_notify:* &redisson_*${locks}`;
  const more = `${isCluster ? ` ${ON_A_CLUSTER}` : ''}${countsReplicas ? ' +wait' : ''}`;
  return `${names.replaceAll('**', '*')} ${COMMANDS}${more}`;
}
