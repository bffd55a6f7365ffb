import type { LockInspection } from '../lock/lock.js';
import type { LockHolder } from '../port/lock-store.js';

/**
 * The JSON object for a key.
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
 * Sorts locks by how long they are held, the longest first, because an operator looks for a stuck lock. Compares whole seconds,
 * because the clocks of two machines agree no better. Locks of unknown age come last: they are held for less than a second, or by
 * another library. Locks of equal age are sorted by their tokens, which is the order of their grants.
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
