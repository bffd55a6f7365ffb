import { describe, expect, it } from '@jest/globals';
import { storeThatCan } from '../../../libs/distributed-lock/src/port/capabilities.js';
import { setTimeout as pause } from 'node:timers/promises';
import type { CallOptions } from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { systemClock } from '../../../libs/distributed-lock/src/common/clock.js';
import { ownRedis } from '../../support/own-redis.js';
import { closeServices } from '../../support/lock-services.js';
import { until } from '#until';

const LEASE_MS = 1500;
/** A thread of Java. */
const HOLDER = '0f4a17c6-7d0a-4a6e-9b0c-0d6cf8a2a001:1';

/** What Redisson's tests check and no other test of ours does; the numbers are those of verification/interop/redisson-tests.json. */
describe('as Redisson', () => {
  const redis = ownRedis('as-redisson');

  const open = () => redis.open({ watchdogTimeoutMs: LEASE_MS });
  const MODES: [name: string, options: CallOptions][] = [
    ['plain', {}],
    ['exclusive', { mode: 'exclusive' }],
    ['shared', { mode: 'shared' }],
    ['permits', { permits: 3 }],
  ];

  it('a thousand short jobs of many callers on five keys leave no subscription and no key of a lock', async () => {
    const services = Array.from({ length: 4 }, open);
    const keys = Array.from({ length: 5 }, (_, i) => `${redis.key}:${i}`);
    const jobs = Array.from({ length: 1000 }, (_, i) =>
      services[i % 4]!.withLock(keys[i % 5]!, { waitMs: Infinity }, () => pause(i % 3)),
    );
    expect((await Promise.allSettled(jobs)).filter(({ status }) => status === 'rejected')).toEqual([]);
    await closeServices();
    expect(await redis.eyes.client.pubsub('CHANNELS')).toEqual([]);
    expect((await Promise.all(keys.map((name) => redis.eyes.remains(name)))).flat()).toEqual([]);
  }, 30_000);

  it('tries of 100 ms for two keys, one after the other and over again, all succeed', async () => {
    const locks = open();
    await locks.withLock(redis.key, () => undefined);
    for (const name of [redis.key, `${redis.key}:other`, redis.key, `${redis.key}:other`]) {
      const lock = await locks.tryAcquire(name, { waitMs: 100 });
      expect(await lock?.release()).toBe('released');
    }
  });

  it('a lease of an hour is written as it is, and the next lock has its own', async () => {
    const locks = redis.open();
    const long = await locks.acquire(redis.key, { leaseMs: 3_600_000 });
    expect(Math.abs((await redis.eyes.client.pttl(redis.key)) - 3_600_000)).toBeLessThan(1000);
    await long.release();
    expect(await redis.eyes.client.pttl(redis.key)).toBe(-2);
    const next = await locks.acquire(redis.key);
    expect(Math.abs((await redis.eyes.client.pttl(redis.key)) - 30_000)).toBeLessThan(1000);
    await next.release();
  });

  it('callers of sixteen services take turns, and a counter that is read and written loses nothing', async () => {
    const services = Array.from({ length: 16 }, open);
    let counter = 0;
    await Promise.all(
      services.map(async (locks) => {
        for (let turn = 0; turn < 20; turn++) {
          await locks.withLock(redis.key, { waitMs: Infinity }, async () => {
            const read = counter;
            await pause(1);
            counter = read + 1;
          });
        }
      }),
    );
    expect(counter).toBe(16 * 20);
  }, 30_000);

  it.each(MODES)(
    'a lock (%s) is lost with a restart of the server, and a new one is kept and given back',
    async (_, options) => {
      const locks = open();
      const lost = await locks.acquire(redis.key, options);
      await redis.server.restart();
      await until(() => lost.signal.aborted);
      expect(await lost.release()).toBe('lost');
      const lock = await locks.acquire(redis.key, options);
      await redis.eyes.untilRenewed(redis.key);
      await redis.eyes.untilRenewed(redis.key);
      expect(await lock.release()).toBe('released');
    },
    30_000,
  );

  it.each(MODES)(
    'a lock (%s) whose service closes is free at once, not after its lease',
    async (_, options) => {
      await redis.open().acquire(redis.key, options);
      await closeServices();
      const lock = await open().tryAcquire(redis.key);
      expect(await lock?.release()).toBe('released');
    },
  );

  it('a lock that stepped down is kept by the watchdog, and lets nobody write', async () => {
    const locks = open();
    const lock = await locks.acquire(redis.key, { mode: 'exclusive' });
    await redis.eyes.untilRenewed(redis.key);
    await lock.downgrade();
    await redis.eyes.untilRenewed(redis.key);
    await redis.eyes.untilRenewed(redis.key);
    expect(await open().tryAcquire(redis.key, { mode: 'exclusive' })).toBeNull();
    expect(await lock.release()).toBe('released');
  }, 30_000);

  it('readers and writers of sixteen services at random are never inside together', async () => {
    const services = Array.from({ length: 16 }, open);
    const inside = { readers: 0, writers: 0 };
    const violations: object[] = [];
    await Promise.all(
      services.map(async (locks, i) => {
        for (let turn = 0; turn < 20; turn++) {
          const [mode, who] =
            (i + turn) % 4 === 0 ? (['exclusive', 'writers'] as const) : (['shared', 'readers'] as const);
          await locks.withLock(redis.key, { mode, waitMs: Infinity }, async () => {
            inside[who]++;
            if (inside.writers > 1 || (inside.writers > 0 && inside.readers > 0))
              violations.push({ ...inside });
            await pause(1);
            inside[who]--;
          });
        }
      }),
    );
    expect(violations).toEqual([]);
  }, 30_000);

  it('a holder is told of no takeover, so force need not wait until it was told', async () => {
    const locks = open();
    await redis.eyes.client.hset(redis.key, HOLDER, 1);
    await redis.eyes.client.pexpire(redis.key, 60_000);
    const store = redisStore(redis.url).create({
      clock: systemClock,
      keyPrefix: '',
      watchdogTimeoutMs: 30_000,
    });
    const notice = { key: redis.key, owner: HOLDER, graceMs: 100, by: 'shop' };
    expect(await storeThatCan(store, 'takeover').announceTakeover(notice)).toBe('nobody to tell');
    await store.close();
    const lock = await locks.acquire(redis.key, { onBusy: 'takeover', graceMs: 100, waitMs: 60_000 });
    expect(await lock.release()).toBe('released');
  });

  it('a weight of nothing is refused', async () => {
    const asked = open().acquire(redis.key, { permits: 3, weight: 0 });
    await expect(asked).rejects.toThrow('weight must be a whole number from 1 to');
  });

  it('the last of several readers frees the key for a writer, whatever their leases', async () => {
    const [one, two, writer] = [open(), open(), open()];
    const long = await one.acquire(redis.key, { mode: 'shared', leaseMs: 60_000 });
    const short = await two.acquire(redis.key, { mode: 'shared', leaseMs: 700 });
    const waiting = writer.acquire(redis.key, { mode: 'exclusive' });
    await until(() => short.validForMs === 0);
    await redis.eyes.untilQueued(redis.key, 1);
    await long.release();
    expect(await (await waiting).release()).toBe('released');
    expect(await short.release()).toBe('lost');
  }, 30_000);
});
