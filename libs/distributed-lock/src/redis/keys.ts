import type { Claim } from '../port/lock-store.js';
import { LockKeyError } from '../port/lock.errors.js';
import type { Chance } from '../common/clock.js';

/** With this prefix the scripts count tokens together with Redisson's fenced lock, for `sharedTokens`. */
const SHARED_TOKEN_KEY = 'nest_lock_shared_token';

/**
 * The five names of one lock, in the order in which every script takes them. The scripts derive all further ones from these.
 */
export type RedisKeys = readonly [lock: string, queue: string, notes: string, token: string, channel: string];

export function notificationChannel(clientId: string): string {
  return `nest_lock_notify:${clientId}`;
}

/** The key of the restart guard's mark for services with this prefix. A server that loses its data loses the mark. */
export function restartMark(keyPrefix: string): string {
  return `nest_lock_guard:${keyPrefix}`;
}

/**
 * The lock and its channel are Redisson's, and the other keys are ours. All of them lie in the same cluster slot.
 *
 * Redisson gives `x` and `{x}` one channel. A release of one wakes a waiter of the other for nothing, which does no other
 * harm. So only our own keys tell the two apart.
 *
 * @param sharesTokens whether tokens are counted together with Redisson's fenced lock
 */
export function redisKeys(name: string, kind: Claim['kind'], sharesTokens = false): RedisKeys {
  return [
    name,
    ownKey('nest_lock_queue', name),
    ownKey('nest_lock_meta', name),
    ownKey(sharesTokens ? SHARED_TOKEN_KEY : 'nest_lock_token', name),
    redissonChannel(name, kind),
  ];
}

/** The part of `name` that decides its cluster slot, by the server's rule. `undefined` if the whole name does. */
export function hashTag(name: string): string | undefined {
  const start = name.indexOf('{');
  const end = name.indexOf('}', start + 1);
  return start < 0 || end <= start + 1 ? undefined : name.slice(start + 1, end);
}

/** Refuses a name with a brace but without a hash tag: on a cluster the keys of its lock would lie in different slots. */
export function checkSlot(name: string): void {
  if (!/[{}]/.test(name) || hashTag(name) !== undefined) return;
  throw new LockKeyError(
    `"${name}" has a brace but no hash tag: on a cluster its keys would lie in different slots. Escape the brace (lockKey does) or write {…} around a part of it.`,
    name,
  );
}

const RESERVED = [
  /^nest_lock_(queue|meta|token|shared_token|holders|fence|guard|client):/,
  /^redisson_(lock_queue|lock_timeout|lock_token|unlock_latch):/,
  /:rwlock_timeout:\d+$/,
];

/** Refuses a name that the scripts would take for a part of another lock. */
export function checkReserved(name: string): void {
  if (!RESERVED.some((reserved) => reserved.test(name))) return;
  throw new LockKeyError(
    `"${name}" is the name of a key that belongs to another lock, by this library's rules or by Redisson's. Choose another key.`,
    name,
  );
}

/**
 * A key of ours for the lock `name`: no other name has it, and a cluster keeps it in the slot of the lock.
 *
 * The name is its own hash tag unless it has a closing brace, which would end the tag too early. Then the tag of the name
 * comes first, and the whole name after it. A name with a closing brace and no tag is refused on a cluster.
 */
function ownKey(prefix: string, name: string): string {
  if (!name.includes('}')) return `${prefix}:{${name}}`;
  const tag = hashTag(name);
  return tag === undefined ? `${prefix}:${name}` : `${prefix}:{${tag}}:${name}`;
}

const CHANNELS = {
  lock: 'redisson_lock__channel',
  exclusive: 'redisson_rwlock',
  shared: 'redisson_rwlock',
  permits: 'redisson_sc',
} satisfies Record<Claim['kind'], string>;

/** The channel on which a release is announced to Redisson's RLock, RReadWriteLock or semaphores. */
function redissonChannel(name: string, kind: Claim['kind']): string {
  return `${CHANNELS[kind]}:${tagged(name)}`;
}

/** Redisson's sorted set of the holders of permits, by the end of their leases. */
export function permitsKey(name: string): string {
  return `${tagged(name)}:timeout`;
}

/** Redisson's rule: a name that contains a brace is its own hash tag. */
function tagged(name: string): string {
  return name.includes('{') ? name : `{${name}}`;
}

/** A UUID of version 8. Redisson's client ids have version 4, so scripts and clients can tell our ids from foreign ones. */
export function newClientId(chance: Chance): string {
  const uuid = chance.uuid();
  return `${uuid.slice(0, 14)}8${uuid.slice(15)}`;
}

export function isOurs(owner: string): boolean {
  return owner.length > 36 && owner[14] === '8';
}
