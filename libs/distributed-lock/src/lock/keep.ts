import type { LockCore } from './lock-core.js';
import type { End, EndReply, Renewal } from './lock-store.js';

const RETRY_MS = 200;

/**
 * Leaves the lock to run out at `until`, with nobody inside: for `holdAtLeastMs`.
 *
 * What is left becomes a lease that nobody renews, so it ends by itself, also when this process is gone. Asked again
 * while the store does not answer, but not past a shutdown; whatever the store has then ends with its present lease.
 */
export async function keepUntil(until: number, renewal: Renewal, core: LockCore): Promise<EndReply> {
  for (;;) {
    const leaseMs = Math.ceil(until - core.clock.now());
    if (leaseMs <= 0) return 'unknown';
    const [reply] = await core.store.renew([{ ...renewal, leaseMs }]);
    if (reply?.kind === 'renewed') return 'released';
    if (reply?.kind === 'lost') return 'not held';
    if (core.tenures.isClosing) return 'unknown';
    await core.tenures.pause(RETRY_MS);
  }
}

/** Not before `until`, and not at all when the application closes first: then the lease runs out by itself. */
export async function endAfter(until: number, end: End, { clock, store, tenures }: LockCore): Promise<void> {
  await tenures.pause(Math.ceil(until - clock.now()));
  if (!tenures.isClosing) await store.end(end);
}
