import type { LockInspection } from '../lock/lock.js';
import type { LockHolder } from '../port/lock-store.js';

/**
 * A key as the JSON API describes it.
 *
 * @param now the time of day in ms
 */
export function lockView(lock: LockInspection, now: number): object {
  const { key, mode, heldBy, pending, waiters, remainingMs, renewedAgoMs, fencingToken } = lock;
  const renewed = renewedAgoMs !== undefined && { renewedAgoMs: Math.round(renewedAgoMs) };
  return {
    key,
    mode,
    holders: heldBy.map((holder) => ({ ...holderView(holder, now), ...renewed })),
    waiting: pending,
    ...(waiters.length > 0 && { waiters: waiters.map((waiter) => holderView(waiter, now)) }),
    // `null` where no lease ends: JSON has no Infinity.
    remainingMs: Number.isFinite(remainingMs) ? Math.round(remainingMs) : null,
    fencingToken,
  };
}

/**
 * The order in which operators look for a stuck lock: the longest held first, to the second, as ages of two machines are no more exact.
 * Behind these are those of unknown age, which are held for less than a second or by another library. Equal ages are in the order of
 * their tokens, which is that of their grants.
 */
export function oldestFirst(a: LockInspection, b: LockInspection): number {
  const tokenOf = ({ fencingToken = 0 }: LockInspection): number => fencingToken;
  return ageOf(b) - ageOf(a) || tokenOf(a) - tokenOf(b) || (a.key < b.key ? -1 : 1);
}

function ageOf({ heldBy }: LockInspection): number {
  return heldBy.reduce((longest, { heldMs = -1000 }) => Math.max(longest, Math.round(heldMs / 1000)), -1);
}

function holderView({ owner, client, site, heldMs }: LockHolder, now: number): object {
  const names = client && {
    application: client.application,
    host: client.host,
    process: client.process,
  };
  const times = heldMs !== undefined && { heldMs: Math.round(heldMs), since: new Date(now - heldMs) };
  return { owner, ...names, site, ...times };
}
