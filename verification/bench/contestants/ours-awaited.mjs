// The same library by hand: both the acquire and the release are awaited, as the peers do. Nothing here runs in a flow of its
// own, so that Node's AsyncLocalStorage, which costs each promise on Node 20, stays off.
import { LockService } from 'nestjs-distributed-lock';
import { storeOf } from './store-of.mjs';

/** @type {import('./contestant.d.mts').OpenContestant} */
export async function open(url, options) {
  const locks = new LockService({ ...options, store: await storeOf(url) });
  await (await locks.acquire('open')).release();
  return {
    async run(key, work) {
      const lock = await locks.acquire(key);
      try {
        return await work();
      } finally {
        await lock.release();
      }
    },
  };
}
