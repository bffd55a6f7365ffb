import type { History, HoldRecord } from './history.js';

/** Since when an owner of this process has asked for the key, or had it: each owner asks for all callers of its process. */
export function askedSince(
  { calls, holds }: History,
  { process, key, owner, call, from }: HoldRecord,
): number {
  const isOwn = (it: HoldRecord): boolean => owner !== undefined && it.owner === owner && it.key === key;
  const own = holds.filter((it) => it.process === process && isOwn(it));
  const asked = calls.find((it) => it.call === call && it.process === process)?.askedAt ?? from;
  let since = Math.min(asked, ...own.map((it) => it.from));
  for (const other of calls.toReversed()) {
    const { settledAt = Infinity, askedAt } = other;
    if (other.process === process && other.keys.includes(key) && askedAt <= since && settledAt >= since)
      since = askedAt;
  }
  return since;
}
