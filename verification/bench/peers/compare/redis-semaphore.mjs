import { Redis } from 'ioredis';
import { Mutex, Semaphore } from 'redis-semaphore';

/** Acquires and releases as its README shows. @param {string} url @param {number} leaseMs */
export async function open(url, leaseMs) {
  const client = new Redis(url);
  async function runWith(lock, work) {
    await lock.acquire();
    try {
      return await work();
    } finally {
      await lock.release();
    }
  }
  return {
    run: (key, work, { onLost } = {}) =>
      runWith(new Mutex(client, key, { lockTimeout: leaseMs, ...(onLost && { onLockLost: onLost }) }), work),
    async isFree(key) {
      const mutex = new Mutex(client, key, { acquireAttemptsLimit: 1 });
      const free = await mutex.tryAcquire();
      if (free) await mutex.release();
      return free;
    },
    runWithPermit: (key, permits, work) => runWith(new Semaphore(client, key, permits), work),
  };
}
