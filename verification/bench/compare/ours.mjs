import { LockService } from 'nestjs-distributed-lock';
import { memoryStore } from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';

/** @param {string} url @param {number} leaseMs */
export async function open(url, leaseMs) {
  const locks = new LockService({ store: redisStore(url), watchdogTimeoutMs: leaseMs });
  await locks.withLock('open', () => undefined);
  return {
    run(key, work, { onLost, fair } = {}) {
      return locks.withLock(key, { fair }, (lock) => {
        if (onLost) lock.signal.addEventListener('abort', onLost);
        return work();
      });
    },
    async isFree(key) {
      const lock = await locks.tryAcquire(key);
      await lock?.release();
      return lock !== null;
    },
    runAll: (keys, work) => locks.withLock(keys, work),
    runWithPermit: (key, permits, work) => locks.withLock(key, { permits }, work),
  };
}

/** In memory, with leases that end by themselves. */
export async function openMemory(leaseMs) {
  const locks = new LockService({ store: memoryStore() });
  const acquire = (key) => locks.acquire(key, { leaseMs });
  return { acquire, isFree: async (key) => (await locks.tryAcquire(key)) !== null };
}
