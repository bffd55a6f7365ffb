import type { Redis } from 'ioredis';
import type { Holder } from './family-stage.js';
import { braced } from '../../support/redisson-names.js';
import { weightOf } from './family-model.js';

/** How a key and its holders are written in Redis, apart from the times. */
interface Written {
  readonly hash: Record<string, string>;
  /** Readers whose lease runs. */
  readonly readers: readonly string[];
  readonly left: string | null;
  readonly permits: readonly string[];
  /** Readers that the hash does not outlive: it would end under them. */
  readonly outlived: readonly string[];
}

const readerKey = (key: string, name: string) => `${braced(key)}:${name}:rwlock_timeout:1`;
const permitsKey = (key: string) => `${braced(key)}:timeout`;

/** The lease of this holder ends; a key whose last lease that is ends with it. */
export async function lapseInRedis(
  redis: Redis,
  key: string,
  holders: readonly Holder[],
  { name, claim }: Holder,
): Promise<void> {
  if (claim.kind === 'permits') {
    await redis.zadd(
      permitsKey(key),
      'XX',
      ...permitsOf(name, weightOf(claim)).flatMap((member) => [1, member]),
    );
    return;
  }
  await redis.del(readerKey(key, name));
  if (holders.every((holder) => holder.name === name || holder.hasLapsed)) await redis.del(key);
}

export async function heldInRedis(redis: Redis, key: string, holders: readonly Holder[]): Promise<Written> {
  const isCounted = (await redis.type(key)) === 'string';
  // A lock of another name may lie where permits of this one would.
  const hasPermits = isCounted && (await redis.type(permitsKey(key))) === 'zset';
  const members = hasPermits ? await redis.zrange(permitsKey(key), '0', '-1') : [];
  const [hash, left, ttl, ...leases] = await Promise.all([
    isCounted ? {} : redis.hgetall(key),
    isCounted ? redis.get(key) : null,
    redis.pttl(key),
    ...holders.map(({ name }) => redis.pttl(readerKey(key, name))),
  ]);
  const names = holders.map(({ name }) => name);
  return {
    hash,
    readers: names.filter((_, i) => leases[i]! > 0).sort(),
    left,
    permits: members.sort(),
    outlived: names.filter((_, i) => leases[i]! > ttl + 1),
  };
}

export function shouldBeInRedis(holders: readonly Holder[]): Written {
  const nobody = { hash: {}, readers: [], left: null, permits: [], outlived: [] };
  const [first] = holders;
  const names = holders.map(({ name }) => name);
  switch (first?.claim.kind) {
    case undefined:
      return nobody;
    case 'lock':
      return { ...nobody, hash: { [first.name]: '1' } };
    case 'exclusive':
      return { ...nobody, hash: { mode: 'write', [`${first.name}:write`]: '1' } };
    case 'shared': {
      const fields = Object.fromEntries(names.map((name) => [name, '1']));
      const readers = holders.filter(({ hasLapsed }) => !hasLapsed).map(({ name }) => name);
      return { ...nobody, hash: { mode: 'read', ...fields }, readers: readers.sort() };
    }
    case 'permits': {
      const permits = holders.flatMap(({ name, claim }) => permitsOf(name, weightOf(claim)));
      return { ...nobody, left: String(first.claim.permits - permits.length), permits: permits.sort() };
    }
  }
}

/** An entry for each: the first is the owner, the others are numbered. */
function permitsOf(name: string, weight: number): string[] {
  return Array.from({ length: weight }, (_, i) => (i === 0 ? name : `${name}#${i + 1}`));
}
