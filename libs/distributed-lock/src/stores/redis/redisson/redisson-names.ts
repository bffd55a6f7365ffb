import type { Claim } from '../../../port/claim.js';

const CHANNELS = {
  lock: 'redisson_lock__channel',
  exclusive: 'redisson_rwlock',
  shared: 'redisson_rwlock',
  permits: 'redisson_sc',
} satisfies Record<Claim['kind'], string>;

/** The channel on which a release is announced to Redisson's RLock, RReadWriteLock or semaphores. */
export function redissonChannel(name: string, kind: Claim['kind']): string {
  return `${CHANNELS[kind]}:${tagged(name)}`;
}

/** Redisson's sorted set of the holders of permits, by the end of their leases. */
export function permitsKey(name: string): string {
  return `${tagged(name)}:timeout`;
}

/** With this prefix the scripts count tokens together with Redisson's fenced lock, for `sharedTokens`. */
export const SHARED_TOKEN_KEY = 'nest_lock_shared_token';

/** Redisson's rule: a name that contains a brace is its own hash tag. */
function tagged(name: string): string {
  return name.includes('{') ? name : `{${name}}`;
}
