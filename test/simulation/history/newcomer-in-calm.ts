import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import type { Stage } from './stage.js';

const KEY = 'expires';
const OTHER_KEY = 'is free';
const LEASE_MS = 300;
/** So long around the end of the lease one asks again and again. */
const AROUND_MS = 30;
const PATIENCE_MS = 15_000;

/**
 * docs/guarantees.md, several keys and order: a newcomer does not overtake one who waits, also when the lease of the holder is
 * over and the key is free for a moment, and also if it asks for several keys.
 */
export async function newcomerInCalm({ actors, parts }: Stage): Promise<void> {
  const { kernel, history } = parts;
  const [holder, waiter, newcomer] = actors.filter(({ process }) => process.state === 'running');
  if (!holder || !waiter || !newcomer) return;
  let isGranted = false;
  let isRefused = false;
  let heldFrom: number | undefined;
  holder.process.receive(() => {
    // It is not given back: its lease runs out.
    const held = holder.services[0]?.acquire(KEY, { leaseMs: LEASE_MS });
    held?.then(
      () => (heldFrom = kernel.now),
      () => (isRefused = true),
    );
  });
  await kernel.run(kernel.now + PATIENCE_MS, () => heldFrom !== undefined || isRefused);
  if (heldFrom === undefined) return;
  waiter.process.receive(() => {
    const asked = waiter.services[0]?.withLock(KEY, { waitMs: Infinity }, () => void (isGranted = true));
    asked?.catch(() => (isRefused = true));
  });
  const until = heldFrom + LEASE_MS + AROUND_MS;
  await kernel.run(until - 2 * AROUND_MS);
  const isOver = () => isGranted || isRefused || kernel.now > until;
  newcomer.process.receive(() => {
    const service = newcomer.services[0] as LockService;
    askAgain(service, isOver, () => {
      if (!isGranted) history.violate('order', 'a newcomer overtakes one who waits for a lease that is over');
    }).catch(() => undefined);
  });
  await kernel.run(kernel.now + PATIENCE_MS, () => isGranted || isRefused);
  await kernel.run(kernel.now + PATIENCE_MS);
}

async function askAgain(service: LockService, isOver: () => boolean, onGranted: () => void): Promise<void> {
  for (let i = 0; !isOver(); i++) {
    const lock = await service.tryAcquire(i % 2 === 0 ? KEY : [KEY, OTHER_KEY]);
    if (!lock) continue;
    onGranted();
    await lock.release();
  }
}
