import type { Claim } from '../../../port/claim.js';
import type { Chance } from '../../../time/chance.js';

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

/** Redisson's client ids are UUIDs of version 4: scripts and clients tell our ids from those of foreign clients by it. */
export function newClientId(chance: Chance): string {
  const uuid = chance.uuid();
  return `${uuid.slice(0, 14)}8${uuid.slice(15)}`;
}

export function isOurs(owner: string): boolean {
  return owner.length > 36 && owner[14] === '8';
}
