import type { Claim } from '../port/lock-store.js';
import { LockStoreError } from '../port/lock.errors.js';
import { asUnknownError, storeError, textOf } from '../connection/connection-errors.js';
import type { RedisClient } from './client.js';
import { permitsKey, type RedisKeys } from './keys.js';

/** Replies that mean "not now": the state of the server or of the network will change by itself. */
const UNREADY =
  /\b(OOM|READONLY|LOADING|BUSY|MISCONF|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|NOREPLICAS|NOGOODSLAVE)\b/;
/** The errors of ioredis and node-redis for a command that they dropped, because they had no connection and no queue. */
const NEVER_WRITTEN = /Stream isn't writeable|^The client is (offline|closed)/;
/** An error reply of the server starts with an upper-case word. An error of the client library about a connection does not. */
const ANSWER = /^[A-Z]{3,}\b/;

/** The texts with which Redis 6.2, 7.0 and 7.2 deny a command, a key or a channel to a client or to its script. */
const DENIED = [
  /can't run this command|permissions to run/,
  /(can't|permissions to) access .*\b(keys?|channels?)\b/,
  /(can't|permissions to) publish to .*\bchannels?\b/,
];

export function isDenied(error: unknown): boolean {
  return DENIED.some((words) => words.test(textOf(error)));
}

/**
 * Whether the error is a reply of the server. All others come from the client library and concern a connection; those of the operating
 * system have a `code`.
 */
export function isAnswer(error: unknown): error is Error {
  return error instanceof Error && !('code' in error) && ANSWER.test(error.message);
}

interface ClientError {
  command?: { args?: unknown };
  /** The error of the last node that a cluster client tried. It may contain the command's arguments as well. */
  readonly lastNodeError?: unknown;
}

/**
 * Removes the arguments of the command from an error of the client. The arguments of a refused login are user and
 * password, and callers log the error as a `cause`.
 */
export function forgetArguments(error: unknown): void {
  if (typeof error !== 'object' || error === null) return;
  const { command, lastNodeError } = error as ClientError;
  if (typeof command === 'object' && command !== null) delete command.args;
  if (lastNodeError !== error) forgetArguments(lastNodeError);
}

/** Makes the error for the caller. Its reason tells the caller what to do: wait, give up, or mend something. */
export function asStoreError(cause: unknown, key: string | undefined): LockStoreError {
  if (cause instanceof LockStoreError) return cause;
  const detail = describe(cause);
  return storeError('Redis', { reason: reasonOf(cause, detail), detail }, { key, cause });
}

function reasonOf(cause: unknown, detail: string): LockStoreError['reason'] {
  if (isAnswer(cause)) return UNREADY.test(detail) ? 'unready' : 'refused';
  return NEVER_WRITTEN.test(detail) ? 'unreachable' : 'unknown';
}

export function unknown(detail: string, key: string | undefined, cause?: unknown): LockStoreError {
  return storeError('Redis', { reason: 'unknown', detail }, { key, cause });
}

/**
 * Changes the reason to `unknown`: a second copy of a command failed, and the first copy, which got no reply, may still be executed. A refusal
 * stays a refusal.
 */
export function asUnsureError(error: LockStoreError): LockStoreError {
  return error.reason === 'refused' ? error : asUnknownError(error);
}

/** Some errors of Redis and of its clients do not say what to do. The message of the store adds it. */
const ADVICE: readonly (readonly [text: RegExp, advice: string])[] = [
  [
    /^MOVED /,
    'It is one server of a cluster: give redisStore a Cluster of ioredis, or what createCluster of node-redis makes',
  ],
  [/^READONLY /, 'Give the address of the master, or Sentinels, which name it'],
  [/^WRONGPASS /, 'Check user and password of the target of redisStore'],
  [
    /^ERR unknown command .(time|evalsha)\b/i,
    'Is it a Sentinel? Give { sentinels: [{ host, port }], name } of ioredis, or what createSentinel of node-redis makes',
  ],
  // node-redis does not show what has answered, so the advice names the likely causes.
  [
    /^(Unknown RESP type|Socket closed unexpectedly|read ECONNRESET)/,
    'Is it Redis that listens there? The URL of a Redis with TLS starts with rediss:',
  ],
];

export function describe(error: unknown): string {
  const text = textOf(error);
  const [, advice] = ADVICE.find(([pattern]) => pattern.test(text)) ?? [];
  return advice === undefined ? text : `${text.replace(/\.$/, '')}. ${advice}`;
}

/** Whether the server or one of our scripts refused because a key holds something that is no lock. */
export function isWrongType(error: unknown): boolean {
  return /\bWRONGTYPE\b/.test(textOf(error));
}

/** The error texts of our own scripts, as holders.lua has them. */
const NO_LOCK = 'data of the application';
const SHARED_PERMITS = 'permits of two names';

const OWN_NAME =
  'a lock needs a name of its own, and one name is either a lock or permits. Choose another key, or set keyPrefix (now part of the name) to keep locks apart from data.';

/** Whether the key of the lock itself holds something else, so that nobody holds the lock. `false` if the server does not say. */
export async function isOtherData(client: RedisClient, kind: Claim['kind'], lock: string): Promise<boolean> {
  const type = await client.call('type', [lock], lock).catch(() => 'none');
  return type !== 'none' && type !== typeOfLock(kind);
}

function typeOfLock(kind: Claim['kind']): string {
  return kind === 'permits' ? 'string' : 'hash';
}

/** Says which key of the lock holds something else. A lock that is named like the data that it protects is the classic mistake. */
export async function explainWrongType(
  client: RedisClient,
  { kind, names }: { readonly kind: Claim['kind']; readonly names: RedisKeys },
  cause: unknown,
): Promise<string> {
  const text = textOf(cause);
  const [lock, queue, notes, token] = names;
  const parts = {
    [queue]: 'zset',
    [notes]: 'hash',
    [token]: 'string',
    ...(kind === 'permits' && { [permitsKey(lock)]: 'zset' }),
  };
  // All at the same time: a caller whose wait is over is not to wait for one reply after the other.
  const typeOf = async (name: string) => [name, (await client.call('type', [name], name)) as string] as const;
  const types = new Map(await Promise.all([lock, ...Object.keys(parts)].map(typeOf)));
  const found = types.get(lock);
  if (found === 'none' || found === typeOfLock(kind)) {
    for (const [part, expected] of Object.entries(parts)) {
      const type = types.get(part);
      if (type !== 'none' && type !== expected)
        return `"${part}" is a ${type} in Redis, where the lock "${lock}" keeps something else. Choose another key for the lock, or delete that one if nobody needs it.`;
    }
  }
  if (text.includes(SHARED_PERMITS))
    return `The permits of "${lock}" are kept in "${permitsKey(lock)}", by Redisson's rule, and so are those of the same name without or with its braces, which are in use. Choose another key.`;
  if (found === 'none') {
    return `"${lock}" was not a lock of this kind when the request came, and is free by now: ${OWN_NAME}`;
  }
  const data = text.includes(NO_LOCK) ? 'it holds data of the application, which is left as it is; ' : '';
  return `"${lock}" is a ${found} in Redis, not a lock of this kind: ${data}${OWN_NAME}`;
}

/** Makes the errors for a user who lacks a right: in the server's words, with the command that adds the missing rights. */
export class AccessRights {
  private readonly reported = new Set<string>();

  constructor(
    private readonly lockUser: LockUser,
    private readonly report: (error: LockStoreError) => void,
  ) {}

  /** @param cause an error of the server for which `isDenied` is true */
  refusal(cause: unknown, key: string | undefined): LockStoreError {
    const message = `Redis refused: user "${this.lockUser.user}" lacks rights that a lock needs (${textOf(cause)}). ${this.rule(rightsOf(this.lockUser))}`;
    return new LockStoreError(message, key, 'refused', { cause });
  }

  /** Reports that the user lacks the right to subscribe or to unsubscribe. Without it locks still work, but slowly. */
  onNotSubscribed(error: unknown): void {
    const [, command] = /permissions to run the '([\w|]+)' command/.exec(textOf(error)) ?? [];
    if (!command || this.reported.has(command)) return;
    this.reported.add(command);
    const message = `User "${this.lockUser.user}" may not subscribe, so waiters get their locks by polling. ${this.rule(`+${command}`)}`;
    this.report(new LockStoreError(message, undefined, 'refused'));
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
