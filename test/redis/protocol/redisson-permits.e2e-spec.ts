import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { permitsChannelOf, RedissonPermits } from '../../support/redisson-permits.js';
import { until } from '#until';
import { RedissonStage } from './redisson-stage.js';

jest.setTimeout(30_000);

/** Long before the next look of one of ours, which comes within a second. */
const AT_ONCE_MS = 500;
const NEVER = '922337203685477';

let stage: RedissonStage;
let java: RedissonPermits;
let name: string;

beforeEach(() => {
  stage = new RedissonStage(process.env['REDIS_URL'] as string, permitsChannelOf);
  name = stage.name;
  java = stage.add(new RedissonPermits(stage.url, name));
});
afterEach(() => stage.close());

const left = () => stage.redis.get(name);
const deadlines = () => stage.redis.zrange(java.deadlines, '0', '-1', 'WITHSCORES');

describe('the reference of the semaphore, step by step', () => {
  it('does what the worked example says', async () => {
    await stage.listen();
    expect(await java.trySetPermits(2)).toBe(1);
    expect(await java.trySetPermits(5)).toBe(0);
    const [a] = (await java.tryAcquire(1, 300)) as Buffer[];
    expect(await left()).toBe('1');
    const [b] = (await java.tryAcquire()) as Buffer[];
    expect(await left()).toBe('0');
    expect((await deadlines())[3]).toBe(NEVER);
    const retryAt = (await java.tryAcquire()) as number;
    expect(retryAt).toBe(Number((await deadlines())[1]));
    expect(await stage.heardSoFar()).toEqual(['2']);
    await until(() => Date.now() > retryAt);
    const [c] = (await java.tryAcquire()) as Buffer[];
    expect(await java.release(a)).toBe(0);
    expect(await java.tryAcquire()).toBeNull();
    expect(await java.release(b)).toBe(1);
    expect(await java.release(c)).toBe(1);
    expect(await stage.heardSoFar()).toEqual(['1', '1', '2']);
  });
});

describe('permits of ours', () => {
  it('are Redisson’s: a counter of what is left, and a deadline for each', async () => {
    const before = Date.now();
    const lock = await stage.node().acquire(name, { permits: 5, weight: 2, leaseMs: 20_000 });
    expect(await left()).toBe('3');
    const [one, until1, two, until2] = await deadlines();
    expect(two).toBe(`${one}#2`);
    expect(until1).toBe(until2);
    expect(Number(until1)).toBeGreaterThanOrEqual(before + 20_000 - 50);
    expect(Number(until1)).toBeLessThan(before + 25_000);
    await lock.release();
    expect(await stage.remains()).toEqual([]);
  });

  it('are told by Redisson’s channel when they come back: how many are left then', async () => {
    const locks = stage.node();
    const [one, two] = [
      await locks.acquire(name, { permits: 3 }),
      await locks.acquire(name, { permits: 3, weight: 2 }),
    ];
    await stage.listen();
    await two.release();
    expect(await stage.heardSoFar()).toEqual(['2']);
    await one.release();
    // Nothing is left to count, and whoever comes finds a number again.
    expect(await stage.heardSoFar()).toEqual(['1']);
  });
});

describe('permits of Java and of ours', () => {
  beforeEach(() => java.trySetPermits(3));

  it('are counted together', async () => {
    const locks = stage.node();
    const [id] = (await java.tryAcquire()) as Buffer[];
    const lock = await locks.acquire(name, { permits: 3, weight: 2 });
    expect(await left()).toBe('0');
    expect(await locks.tryAcquire(name, { permits: 3 })).toBeNull();
    expect(await java.tryAcquire(1, 1000)).toEqual(expect.any(Number));
    expect((await locks.inspect(name))?.mode).toBe('permits');
    expect((await locks.inspect(name))?.holders).toHaveLength(2);
    await lock.release();
    expect(await left()).toBe('2');
    await java.release(id);
    expect(await left()).toBe('3');
    expect(await deadlines()).toEqual([]);
  });

  it('come back to a counter that stays when the last of ours is gone', async () => {
    const lock = await stage.node().acquire(name, { permits: 3, weight: 3 });
    expect(await java.tryAcquire(1, 1000)).toEqual(expect.any(Number));
    await lock.release();
    expect(await left()).toBe('3');
    expect(await stage.redis.pttl(name)).toBe(-1);
    expect(await java.tryAcquire(3)).toHaveLength(3);
  });

  it('given back by ours wake Java', async () => {
    const lock = await stage.node().acquire(name, { permits: 3, weight: 2 });
    const acquired = java.acquire(3);
    await stage.untilListening(1);
    await lock.release();
    expect(await acquired).toHaveLength(3);
    expect(await left()).toBe('0');
  });

  it('given back by Java wake ours, long before the next recheck', async () => {
    const locks = stage.node();
    const waitedMs: number[] = [];
    for (let i = 0; i < 3; i++) {
      const [id] = (await java.tryAcquire()) as Buffer[];
      const acquired = locks.acquire(name, { permits: 3, weight: 3 });
      await stage.untilListening(1);
      const freedAt = performance.now();
      await java.release(id);
      const lock = await acquired;
      waitedMs.push(performance.now() - freedAt);
      await lock.release();
      await stage.untilListening(0);
    }
    expect(Math.min(...waitedMs)).toBeLessThan(AT_ONCE_MS);
  });

  it('of a Java process that died are had by ours when their lease is over', async () => {
    const ids = await java.tryAcquire(2, 300);
    const diesAt = Date.now() + 300;
    const lock = await stage.node().acquire(name, { permits: 3, weight: 3 });
    expect(Date.now()).toBeGreaterThanOrEqual(diesAt - 50);
    expect(await java.release((ids as Buffer[])[0])).toBe(0);
    expect(await left()).toBe('0');
    await lock.release();
    expect(await left()).toBe('3');
  });

  it('of ours whose lease is over are had by Java, and are lost for ours', async () => {
    const lock = await stage.node().acquire(name, { permits: 3, weight: 3, leaseMs: 300 });
    const ids = await java.acquire(2, 20_000);
    // Redisson takes over as many as it needs; the third comes back with the end of ours.
    expect(await lock.release()).toBe('lost');
    await until(async () => (await left()) === '1');
    for (const id of ids) await java.release(id);
    expect(await left()).toBe('3');
    expect(await deadlines()).toEqual([]);
  });

  it('are had by Java in between ours, which come without end and leave none unused', async () => {
    const services = [stage.node(), stage.node()];
    let isDone = false;
    const ours = services.flatMap((locks) =>
      Array.from({ length: 4 }, async () => {
        while (!isDone) await locks.withLock(name, { permits: 3, waitMs: Infinity }, () => pause(20));
      }),
    );
    await stage.untilQueued(2);
    for (let i = 0; i < 3; i++) {
      const [id] = await java.acquire(1, 20_000);
      expect(await java.release(id)).toBe(1);
    }
    isDone = true;
    await Promise.all(ours);
    await until(async () => (await left()) === '3');
  });

  it('are never more than there are, whoever takes them', async () => {
    const services = [stage.node(), stage.node()];
    let inside = 0;
    let most = 0;
    const enter = (weight: number) => (most = Math.max(most, (inside += weight)));
    const turns = { java: 0, node: 0 };
    let isJavaDone = false;
    const ours = services.map(async (locks, i) => {
      while (!isJavaDone) {
        await locks.withLock(name, { permits: 3, weight: i + 1, waitMs: Infinity }, async () => {
          enter(i + 1);
          await stage.redis.ping();
          inside -= i + 1;
          turns.node += 1;
        });
      }
    });
    for (let i = 0; i < 20; i++) {
      const [id] = await java.acquire(1, 20_000);
      enter(1);
      await stage.redis.ping();
      inside -= 1;
      turns.java += 1;
      await java.release(id);
    }
    isJavaDone = true;
    await Promise.all(ours);
    expect(most).toBeLessThanOrEqual(3);
    expect(most).toBeGreaterThan(1);
    expect(turns.java).toBe(20);
    expect(turns.node).toBeGreaterThan(0);
    await until(async () => (await left()) === '3');
  });
});
