// A lock of `SET NX PX` by hand: asks again every 100 ms, and deletes the key by a script if it still has its own value.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const LEASE_MS = 3000;
const RETRY_MS = 100;
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

/** @type {import('./system.d.mts').System} */
export const system = {
  server: 'redis',
  leaseMs: LEASE_MS,
  hasKeys: true,
  hasLimits: false,
  async open(url) {
    const redis = new Redis(url);
    return {
      async run(key, work) {
        const token = randomUUID();
        while (!(await redis.set(key, token, 'PX', LEASE_MS, 'NX'))) await sleep(RETRY_MS);
        try {
          return await work({ token });
        } finally {
          await redis.eval(RELEASE, 1, key, token);
        }
      },
      takeAway: () => redis.flushall(),
    };
  },
};
