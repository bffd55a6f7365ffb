import type { Instance } from '../launch.js';
import { purchase } from '../live/buyers.js';
import { readProof } from './sale.js';
import type { Stage } from './stage.js';

/** Long enough to freeze the process in the middle of it. */
const PAY_MS = 1000;

/**
 * Freezes the process that holds a lock for longer than its lease, as a long garbage collection or a suspended machine
 * may. When it runs again it has lost the lock to another buyer, notices that, and writes nothing.
 */
export async function freezeHolder({ shop, database, addItem, untilRead }: Stage): Promise<string> {
  const [frozen, other] = shop.instances as readonly [Instance, Instance, ...Instance[]];
  const id = await addItem(10);
  const late = purchase(`${frozen.url}/goods/${id}/purchase`, 'late', PAY_MS);
  await untilRead(id);
  const frozenAt = performance.now();
  frozen.process.kill('SIGSTOP');
  const prompt = await purchase(`${other.url}/goods/${id}/purchase`, 'prompt').finally(() =>
    frozen.process.kill('SIGCONT'),
  );
  const frozenMs = Math.round(performance.now() - frozenAt);
  const { status, code } = await late;
  const { orders, lost } = await readProof(database, id);
  if (prompt.status !== 201) throw new Error(`The other buyer got ${prompt.status}.`);
  // The lock is lost by the clock of the process, or the database has refused its fencing token.
  if (code !== 'LOCK_LOST' && code !== 'STALE_TOKEN')
    throw new Error(`The frozen buyer got ${status} ${code}.`);
  if (orders !== 1 || lost !== 0)
    throw new Error(`The database has ${orders} orders, ${lost} pieces are lost.`);
  return `Instance ${frozen.id} was frozen for ${frozenMs} ms with the lock in its hands, and instance ${other.id} sold the item meanwhile.
When it ran again it noticed: ${status} ${code} to its buyer, and nothing written.`;
}
