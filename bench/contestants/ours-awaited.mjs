// The same library by hand: both the acquire and the release are awaited, as the peers do.
import { LockService } from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';

/** @type {import('./contestant.d.mts').OpenContestant} */
export async function open(url, options) {
  const locks = new LockService({ ...options, store: redisStore(url) });
  await locks.withLock('open', () => undefined);
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
