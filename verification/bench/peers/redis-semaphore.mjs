import { Redis } from 'ioredis';
import { Mutex } from 'redis-semaphore';

/** @type {import('../contestants/contestant.d.mts').OpenContestant} */
export async function open(url) {
  const client = new Redis(url);
  await client.ping();
  return {
    async run(key, work) {
      const mutex = new Mutex(client, key);
      await mutex.acquire();
      try {
        return await work();
      } finally {
        await mutex.release();
      }
    },
    async keep(key) {
      const mutex = new Mutex(client, key);
      await mutex.acquire();
      return mutex;
    },
  };
}
