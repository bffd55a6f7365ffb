import { LockStoreError } from '../../../port/lock.errors.js';
import { textOf } from '../../common/connection/connection-errors.js';

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

  /** Without the right to subscribe locks still work, but slowly. */
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
