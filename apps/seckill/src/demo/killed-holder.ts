import { lockKey } from 'nestjs-distributed-lock';
import type { Instance } from '../launch.js';
import { purchase } from '../live/buyers.js';
import type { Stage } from './stage.js';

/** Longer than the lease, so that the holder is killed in the middle of it. */
const PAY_MS = 10_000;
/** The clocks of the store and of this process tick in whole ms, and not quite alike. */
const TOLERANCE_MS = 20;

/** kill -9 to the process that holds a lock: the lock goes on to the next buyer when the lease expires, not before. */
export async function killHolder({ shop, locks, addItem, untilRead }: Stage): Promise<string> {
  const [victim, other] = shop.instances.slice(-2) as [Instance, Instance];
  const id = await addItem(10);
  const unanswered = purchase(`${victim.url}/goods/${id}/purchase`, 'victim', PAY_MS).catch(() => 'cut off');
  await untilRead(id);
  victim.process.kill('SIGKILL');
  await unanswered;
  const killedAt = performance.now();
  const leaseLeftMs = Math.floor((await locks.inspect(lockKey`goods:${id}`))?.remainingMs ?? 0);
  const { status } = await purchase(`${other.url}/goods/${id}/purchase`, 'next');
  const waitedMs = Math.round(performance.now() - killedAt);
  if (status !== 201) throw new Error(`The next buyer got ${status} after ${waitedMs} ms.`);
  if (waitedMs < leaseLeftMs - TOLERANCE_MS) {
    throw new Error(
      `The next buyer got the lock after ${waitedMs} ms, but the lease ran for ${leaseLeftMs} ms.`,
    );
  }
  return `kill -9 instance ${victim.id}, which holds the lock: its lease runs for another ${leaseLeftMs} ms.
The next buyer, on instance ${other.id}, bought ${waitedMs} ms later. Until then nobody could tell a dead holder from a slow one.`;
}
