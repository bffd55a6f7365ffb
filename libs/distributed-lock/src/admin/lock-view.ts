import type { LockInspection } from '../lock/lock.js';
import type { LockHolder } from '../port/lock-client.js';

/**
 * A key as JSON tells of it.
 *
 * @param now the time of day in ms
 */
export function lockView(lock: LockInspection, now: number): object {
  const { key, mode, heldBy, pending, remainingMs, fencingToken } = lock;
  return {
    key,
    mode,
    holders: heldBy.map((holder) => holderView(holder, now)),
    waiting: pending,
    // `null` where no lease ends: JSON has no Infinity.
    remainingMs: Number.isFinite(remainingMs) ? Math.round(remainingMs) : null,
    fencingToken,
  };
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
