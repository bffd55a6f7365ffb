import type { Clock } from '../../time/clock.js';
import type { ReleaseRequest, ReleaseReply, LockStore, Renewal } from '../../port/lock-store.js';

const RETRY_MS = 200;

/** What goes on after an owner's last caller has left. */
export interface Afterwards {
  readonly clock: Clock;
  readonly store: LockStore;
  /** The application closes: nothing is retried. */
  isClosing(): boolean;
  pause(ms: number): Promise<void>;
}

/**
 * Leaves the lock to run out at `until`, with nobody inside: for `holdAtLeastMs`.
 *
 * What is left becomes a lease that nobody renews, so it ends by itself, also when this process is gone. Asked again
 * while the store does not answer, but not past a shutdown; whatever the store has then ends with its present lease.
 * Without such a lease the owner is ended, so that the store keeps nothing for it.
 */
export async function holdUntil(
  until: number,
  renewal: Renewal,
  end: ReleaseRequest,
  after: Afterwards,
): Promise<ReleaseReply> {
  for (;;) {
    const leaseMs = Math.ceil(until - after.clock.now());
    if (leaseMs <= 0) return after.store.release(end);
    const [reply] = await after.store.renew([{ ...renewal, leaseMs, isLast: true }]);
    if (reply?.kind === 'renewed') return 'released';
    if (reply?.kind === 'lost') return after.store.release(end);
    if (after.isClosing()) return 'unknown';
    await after.pause(RETRY_MS);
  }
}

/** Not before `until`, and not at all when the application closes first: then the lease runs out by itself. */
export async function releaseAfter(
  until: number,
  end: ReleaseRequest,
  after: Afterwards,
): Promise<ReleaseReply> {
  await after.pause(Math.ceil(until - after.clock.now()));
  return after.isClosing() ? 'unknown' : after.store.release(end);
}
