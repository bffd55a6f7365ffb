import type { Keyspace } from '../../redis/data/keyspace.js';
import { SortedSet } from '../../redis/data/sorted-set.js';

export interface StoredLease {
  readonly key: string;
  readonly owner: string;
  readonly leftMs: number;
}

/** All leases in the data of a server, as Redisson's format has them (holders.lua). @param now the server's time in ms */
export function leasesIn(data: Keyspace, now: number): readonly StoredLease[] {
  const names = data.keys().flatMap((key) => nameOf(data, key) ?? []);
  return [...new Set(names)].flatMap((key) =>
    [...holdersIn(data, key, now)].map(([owner, leftMs]) => ({ key, owner, leftMs })),
  );
}

/** By owner, with the rest of each lease in ms. */
export function holdersIn(data: Keyspace, name: string, now: number): ReadonlyMap<string, number> {
  const leftOf = (key: string): number => (data.find(key)?.expiresAt ?? 0) - now;
  const braced = name.includes('{') ? name : `{${name}}`;
  const { value } = data.find(name) ?? {};
  if (!(value instanceof Map)) {
    const permits = data.find(`${braced}:timeout`)?.value;
    const entries = permits instanceof SortedSet ? permits.inOrder() : [];
    return new Map(entries.map(([owner, until]) => [owner, until - now]));
  }
  const leases = new Map<string, number>();
  for (const field of value.keys()) {
    const isReader = value.get('mode') === 'read' && field !== 'mode';
    leases.set(field.replace(/:write$/, ''), leftOf(isReader ? `${braced}:${field}:rwlock_timeout:1` : name));
  }
  return leases;
}

/** The name of the lock whose leases a key has. */
function nameOf(data: Keyspace, key: string): string | undefined {
  if (/^(nest_lock|redisson_lock)/.test(key)) return undefined;
  const { value } = data.find(key) ?? {};
  if (value instanceof Map) return key;
  return value instanceof SortedSet ? /^\{?(.*?)\}?:timeout$/.exec(key)?.[1] : undefined;
}
