import { LockKeyError } from '../../lock/lock.errors.js';

/** All keys and channels of one lock, in the order in which every script takes them: the only place that names them. */
export type RedisKeys = readonly [lock: string, line: string, info: string, token: string, channel: string];

/** The channel on which one client gets its grants. */
export function pushChannel(clientId: string): string {
  return `nest_lock_push:${clientId}`;
}

/** The lock and its channel are Redisson's (RLock); the rest is ours, in the same cluster slot. */
export function redisKeys(name: string): RedisKeys {
  return [
    name,
    tagged('nest_lock_line', name),
    tagged('nest_lock_info', name),
    tagged('nest_lock_token', name),
    strangersChannel(name),
  ];
}

/** Where Redisson's clients hear that the lock is free. */
export function strangersChannel(name: string): string {
  return tagged('redisson_lock__channel', name);
}

/** On a cluster the keys of one lock must share a slot: a name with a brace but without a hash tag breaks that. */
export function checkSlot(name: string): void {
  if (!name.includes('{') || /\{[^}]+\}/.test(name)) return;
  throw new LockKeyError(
    `"${name}" has a brace but no hash tag: on a cluster its keys would lie in different slots. Escape the brace (lockKey does) or write {…} around a part of it.`,
    name,
  );
}

/** Redisson's rule: a name that contains a brace is its own hash tag. */
function tagged(prefix: string, name: string): string {
  return name.includes('{') ? `${prefix}:${name}` : `${prefix}:{${name}}`;
}
