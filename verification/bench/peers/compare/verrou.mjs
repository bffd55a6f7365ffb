import { Verrou } from '@verrou/core';
import { memoryStore } from '@verrou/core/drivers/memory';
import { redisStore } from '@verrou/core/drivers/redis';
import { Redis } from 'ioredis';

const once = { retry: { attempts: 1 } };

/** @param {string} url @param {number} leaseMs */
export async function open(url, leaseMs) {
  const driver = redisStore({ connection: new Redis(url) });
  const verrou = new Verrou({ default: 'redis', stores: { redis: { driver } } });
  return {
    async run(key, work) {
      const [ran, result] = await verrou.createLock(key, leaseMs).run(async () => work());
      if (!ran) throw new Error('not acquired');
      return result;
    },
    async isFree(key) {
      const lock = verrou.createLock(key, leaseMs);
      const free = await lock.acquire(once);
      if (free) await lock.release();
      return free;
    },
  };
}

/** In memory, with leases that end by themselves. */
export async function openMemory(leaseMs) {
  const verrou = new Verrou({ default: 'memory', stores: { memory: { driver: memoryStore() } } });
  return {
    async acquire(key) {
      const lock = verrou.createLock(key, leaseMs);
      if (!(await lock.acquire(once))) throw new Error('not acquired');
      return lock;
    },
    isFree: (key) => verrou.createLock(key, leaseMs).acquire(once),
  };
}
