import type { AcquireRequest } from '../../port/lock-store.js';
import { SILENT_WAITER_MS } from '../../port/recheck-interval.js';
import type { Note } from './document.js';

/**
 * Whether the request leaves a note if the lock is not free. The writer that merges a note counts no waiters, so a request with a
 * finite `maxWaiting` leaves none.
 */
export function leavesNote({ waitMs, maxWaiting = Infinity }: AcquireRequest): boolean {
  return waitMs > 0 && maxWaiting === Infinity;
}

export function noteOf(request: AcquireRequest, { minToken, nonce }: Pick<Note, 'minToken' | 'nonce'>): Note {
  const { owner, claim, leaseMs, tokens, ticket } = request;
  return {
    owner,
    claim,
    leaseMs,
    tokens,
    minToken,
    ticket,
    nonce,
    waitMs: Math.min(request.waitMs, SILENT_WAITER_MS),
  };
}
