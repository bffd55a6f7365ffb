import { describe, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { MOST_IN_FLIGHT } from '../../../libs/distributed-lock/src/stores/redis/connection/redis.connection.js';
import { ownRedis } from '../../support/own-redis.js';
import { elapsed, failureOf } from '../../support/lock-services.js';
import { until } from '#until';

const CALLERS = 200;
const SLACK_MS = 500;

/** Numbers from 0 to 1 that look random and are the same in each run. */
function* numbers(seed: number): Generator<number, never> {
  for (let state = seed; ;) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    yield state / 2 ** 32;
  }
}

describe('callers that leave', () => {
  const redis = ownRedis('abort');

  it.each([
    ['in strict order', true],
    ['in the local queue', false],
  ])('200 callers %s that abort at random leave no entry in the queue', async (_name, fair) => {
    const lock = await redis.open().acquire(redis.key);
    const service = redis.open();
    const random = numbers(7);
    const failures = Array.from({ length: CALLERS }, () => {
      const leaving = new AbortController();
      setTimeout(() => leaving.abort(new Error('gone')), random.next().value * 500);
      return failureOf(service.acquire(redis.key, { fair, signal: leaving.signal }));
    });
    await until(async () => (await redis.eyes.queue(redis.key)).length > 0);
    for (const failure of failures) expect(await failure).toMatchObject({ message: 'gone' });
    await until(async () => (await redis.eyes.queue(redis.key)).length === 0);
    expect(await redis.eyes.client.hlen(`nest_lock_meta:{${redis.key}}`)).toBe(0);
    expect(lock.validForMs).toBeGreaterThan(0);
    expect(await lock.release()).toBe('released');
    expect(await redis.eyes.remains(redis.key)).toEqual([]);
  });

  it.each([
    ['a store', {}],
    ['a store with restartGuardMs', { restartGuardMs: 1500, watchdogTimeoutMs: 1500 }],
  ])(
    '%s lets nothing be held by those who left before their question was written',
    async (_name, options) => {
      // Waits out the first start under a guard.
      await redis.open(options).withLock('warm', { waitMs: 10_000 }, () => undefined);
      const service = redis.open(options);
      const leaving = new AbortController();
      // More than are in flight at once: the others leave while they wait to be written.
      const failures = Array.from({ length: MOST_IN_FLIGHT + 1000 }, (_, i) =>
        failureOf(service.acquire(`${redis.key}:${i}`, { signal: leaving.signal })),
      );
      setImmediate(() => leaving.abort(new Error('gone')));
      for (const failure of failures) expect(await failure).toMatchObject({ message: 'gone' });
      await service.withLock(`${redis.key}:last`, { waitMs: 10_000 }, () => undefined);
      await until(async () => (await redis.eyes.client.keys(`${redis.key}:*`)).length === 0);
    },
    30_000,
  );

  it('the lock goes on from hand to hand while callers abort in the moment of hand-off, and is free at the end', async () => {
    const services = [redis.open(), redis.open()];
    const random = numbers(11);
    const tokens: number[] = [];
    let inside = 0;
    let most = 0;
    const call = async (i: number): Promise<unknown> => {
      const leaving = new AbortController();
      const service = services[i % 2] as LockService;
      if (i % 3 === 0) setTimeout(() => leaving.abort('gone'), random.next().value * 200);
      try {
        return await service.withLock(
          redis.key,
          { fair: i % 2 === 0, signal: leaving.signal },
          async (lock) => {
            most = Math.max(most, ++inside);
            await redis.eyes.client.ping();
            tokens.push(lock.fencingToken);
            inside -= 1;
            return 'served';
          },
        );
      } catch (error) {
        return error;
      }
    };
    const calls = Array.from({ length: CALLERS }, (_, i) => call(i));
    const outcomes = await Promise.all(calls);
    expect(most).toBe(1);
    expect(new Set(outcomes)).toEqual(new Set(['served', 'gone']));
    expect(tokens).toHaveLength(outcomes.filter((outcome) => outcome === 'served').length);
    expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b));
    expect(await elapsed(until(async () => (await redis.eyes.remains(redis.key)).length === 0))).toBeLessThan(
      SLACK_MS,
    );
  }, 15_000);

  it('waits that run out leave no entry in the queue', async () => {
    const lock = await redis.open().acquire(redis.key);
    const service = redis.open();
    const failures = await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        failureOf(service.acquire(redis.key, { fair: true, waitMs: 100 + i * 4 })),
      ),
    );
    for (const failure of failures)
      expect(failure).toMatchObject({ code: 'LOCK_WAIT_TIMEOUT', key: redis.key });
    await until(async () => (await redis.eyes.queue(redis.key)).length === 0);
    await lock.release();
    expect(await redis.eyes.remains(redis.key)).toEqual([]);
  });
});
