import type { Claim } from '../../lock/claim.js';
import { LockKeyError } from '../../lock/lock.errors.js';

/** All keys and channels of one lock, in the order in which every script takes them: the only place that names them. */
export type RedisKeys = readonly [lock: string, line: string, info: string, token: string, channel: string];

/** The channel on which one client gets its grants. */
export function pushChannel(clientId: string): string {
  return `nest_lock_push:${clientId}`;
}

/** What a server that keeps its data remembers of the services with this prefix. */
export function restartMark(keyPrefix: string): string {
  return `nest_lock_guard:${keyPrefix}`;
}

/**
 * The lock and its channel are Redisson's; the rest is ours, in the same cluster slot.
 *
 * @param sharesTokens the scripts count tokens together with Redisson's fenced lock, as the name of the key tells them
 */
export function redisKeys(name: string, kind: Claim['kind'], sharesTokens = false): RedisKeys {
  return [
    name,
    tagged('nest_lock_line', name),
    tagged('nest_lock_info', name),
    tagged(sharesTokens ? 'nest_lock_shared_token' : 'nest_lock_token', name),
    strangersChannel(name, kind),
  ];
}

const CHANNELS = {
  lock: 'redisson_lock__channel',
  exclusive: 'redisson_rwlock',
  shared: 'redisson_rwlock',
  permits: 'redisson_sc',
} satisfies Record<Claim['kind'], string>;

/** Where Redisson's clients hear that the lock is free: those of its RLock, RReadWriteLock or semaphores. */
export function strangersChannel(name: string, kind: Claim['kind']): string {
  return tagged(CHANNELS[kind], name);
}

/** The holders of permits, by the end of their leases: Redisson's. */
export function permitsKey(name: string): string {
  return `${name.includes('{') ? name : `{${name}}`}:timeout`;
}

/** What decides over the slot of `name` on a cluster, unless it is the whole name: the server's rule. */
function hashTag(name: string): string | undefined {
  const start = name.indexOf('{');
  const end = name.indexOf('}', start + 1);
  return start < 0 || end <= start + 1 ? undefined : name.slice(start + 1, end);
}

/** Whether one script may take all of these on a cluster: they say so by the same hash tag. */
export function shareSlot(names: readonly string[]): boolean {
  const [first, ...rest] = names.map(hashTag);
  return first !== undefined && rest.every((tag) => tag === first);
}

/** On a cluster the keys of one lock must share a slot: a name with a brace but without a hash tag breaks that. */
export function checkSlot(name: string): void {
  if (!/[{}]/.test(name) || hashTag(name) !== undefined) return;
  throw new LockKeyError(
    `"${name}" has a brace but no hash tag: on a cluster its keys would lie in different slots. Escape the brace (lockKey does) or write {…} around a part of it.`,
    name,
  );
}

/** Redisson's rule: a name that contains a brace is its own hash tag. */
function tagged(prefix: string, name: string): string {
  return name.includes('{') ? `${prefix}:${name}` : `${prefix}:{${name}}`;
}
