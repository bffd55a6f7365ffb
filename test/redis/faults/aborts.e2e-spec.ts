import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { startRedisServer, type RedisServer } from '#redis-server';
import { closeServices, elapsed, failureOf, openService } from '../../support/lock-services.js';
import { RedisEyes } from '../../support/redis-eyes.js';
import { until } from '../../support/until.js';

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
  let server: RedisServer;
  let eyes: RedisEyes;
  let key: string;
  let count = 0;

  beforeAll(async () => {
    server = await startRedisServer();
    eyes = new RedisEyes(server.url);
  }, 20_000);
  beforeEach(() => {
    key = `abort:${++count}`;
  });
  afterEach(closeServices);
  afterAll(async () => {
    eyes.close();
    await server.stop();
  });

  it.each([
    ['in strict order', true],
    ['in the local line', false],
  ])('200 callers %s that abort at random leave no entry in the line', async (_name, fair) => {
    const lock = await openService(server.url).acquire(key);
    const service = openService(server.url);
    const random = numbers(7);
    const failures = Array.from({ length: CALLERS }, () => {
      const leaving = new AbortController();
      setTimeout(() => leaving.abort(new Error('gone')), random.next().value * 500);
      return failureOf(service.acquire(key, { fair, signal: leaving.signal }));
    });
    await until(async () => (await eyes.line(key)).length > 0);
    for (const failure of failures) expect(await failure).toMatchObject({ message: 'gone' });
    await until(async () => (await eyes.line(key)).length === 0);
    expect(await eyes.client.hlen(`nest_lock_meta:{${key}}`)).toBe(0);
    expect(lock.validForMs).toBeGreaterThan(0);
    expect(await lock.release()).toBe('released');
    expect(await eyes.remains(key)).toEqual([]);
  });

  it.each([
    ['a store', {}],
    ['a store with restartGuardMs', { restartGuardMs: 1500, watchdogTimeoutMs: 1500 }],
  ])(
    '%s lets nothing be held by those who left before their question was written',
    async (_name, options) => {
      // Waits out the first start under a guard.
      await openService(server.url, options).withLock('warm', { waitMs: 10_000 }, () => undefined);
      const service = openService(server.url, options);
      const leaving = new AbortController();
      // More than are in flight at once: most of them leave while they wait to be written.
      const failures = Array.from({ length: 6000 }, (_, i) =>
        failureOf(service.acquire(`${key}:${i}`, { signal: leaving.signal })),
      );
      setImmediate(() => leaving.abort(new Error('gone')));
      for (const failure of failures) expect(await failure).toMatchObject({ message: 'gone' });
      await service.withLock(`${key}:last`, { waitMs: 10_000 }, () => undefined);
      await until(async () => (await eyes.client.keys(`${key}:*`)).length === 0);
    },
    30_000,
  );

  it('the lock goes on from hand to hand while callers abort in the moment of hand-off, and is free at the end', async () => {
    const services = [openService(server.url), openService(server.url)];
    const random = numbers(11);
    const tokens: number[] = [];
    let inside = 0;
    let most = 0;
    const call = async (i: number): Promise<unknown> => {
      const leaving = new AbortController();
      const service = services[i % 2] as LockService;
      if (i % 3 === 0) setTimeout(() => leaving.abort('gone'), random.next().value * 200);
      try {
        return await service.withLock(key, { fair: i % 2 === 0, signal: leaving.signal }, async (lock) => {
          most = Math.max(most, ++inside);
          await eyes.client.ping();
          tokens.push(lock.fencingToken);
          inside -= 1;
          return 'served';
        });
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
    expect(await elapsed(until(async () => (await eyes.remains(key)).length === 0))).toBeLessThan(SLACK_MS);
  }, 15_000);

  it('waits that run out leave no entry in the line', async () => {
    const lock = await openService(server.url).acquire(key);
    const service = openService(server.url);
    const failures = await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        failureOf(service.acquire(key, { fair: true, waitMs: 100 + i * 4 })),
      ),
    );
    for (const failure of failures) expect(failure).toMatchObject({ code: 'LOCK_WAIT_TIMEOUT', key });
    await until(async () => (await eyes.line(key)).length === 0);
    await lock.release();
    expect(await eyes.remains(key)).toEqual([]);
  });
});
