import { Redis } from 'ioredis';
import { LockService } from 'nestjs-distributed-lock';
import { OnceService, redisResults } from 'nestjs-distributed-lock/once';
import { redisStore } from 'nestjs-distributed-lock/redis';

/** @type {import('./system.d.mts').System} */
export const system = {
  server: 'redis',
  leaseMs: 3000,
  hasKeys: true,
  hasLimits: true,
  async open(url) {
    const redis = new Redis(url);
    const locks = new LockService({ store: redisStore(url), watchdogTimeoutMs: 3000, waitMs: Infinity });
    const once = new OnceService(locks, { results: redisResults(redis) });
    await locks.withLock('open', () => undefined);
    return {
      run(key, work, { limit, onLost } = {}) {
        const options = limit ? { permits: limit } : { fair: true };
        return locks.withLock(key, options, (lock) => {
          if (onLost) lock.signal.addEventListener('abort', onLost);
          return work({ token: lock.fencingToken });
        });
      },
      runOnce: (key, work) => once.run(key, { keepForMs: 60_000 }, work),
      takeAway: () => redis.flushall(),
    };
  },
};
