import { Redis } from 'ioredis';
import { createLock, IoredisAdapter, LockManager, MemoryAdapter } from 'redlock-universal';

/** @param {string} url @param {number} leaseMs */
export async function open(url, leaseMs) {
  const adapter = new IoredisAdapter(new Redis(url));
  const manager = new LockManager({ nodes: [adapter], defaultTTL: leaseMs });
  return {
    run: (key, work, { onLost, fair } = {}) =>
      createLock({ adapter, key, ttl: leaseMs, ...(fair && { retryAttempts: 100 }) }).using(
        async (signal) => {
          if (onLost) signal.addEventListener('abort', onLost);
          return work();
        },
      ),
    isFree: (key) =>
      createLock({ adapter, key, ttl: leaseMs, retryAttempts: 0 })
        .using(async () => true)
        .catch(() => false),
    runAll: (keys, work) => manager.usingBatch(keys, async () => work(), { retryAttempts: 100 }),
  };
}

/** In memory, with leases that end by themselves. */
export async function openMemory(leaseMs) {
  const adapter = new MemoryAdapter();
  const lockOf = (key) => createLock({ adapter, key, ttl: leaseMs, retryAttempts: 0 });
  return {
    async acquire(key) {
      const lock = lockOf(key);
      const handle = await lock.acquire();
      return { release: () => lock.release(handle) };
    },
    isFree: (key) =>
      lockOf(key)
        .acquire()
        .then(
          () => true,
          () => false,
        ),
  };
}
