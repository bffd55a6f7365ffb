import { Redisson } from 'node-redisson';

/** @type {import('../contestants/contestant.d.mts').OpenContestant} */
export async function open(url) {
  const { hostname: host, port } = new URL(url);
  const redisson = new Redisson({ redis: { options: { host, port: Number(port) } } });
  await redisson.redis.ping();
  return {
    async run(key, work) {
      const lock = redisson.getLock(key);
      await lock.lock();
      try {
        return await work();
      } finally {
        await lock.unlock();
      }
    },
    async keep(key) {
      const lock = redisson.getLock(key);
      await lock.lock();
      return lock;
    },
  };
}
