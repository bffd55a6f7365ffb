import { describe, expect, it } from '@jest/globals';
import { exclusive, permits, shared } from 'nestjs-distributed-lock';
import { ownRedis } from '../support/own-redis.js';
import { until } from '#until';

const redis = ownRedis('key-claims');

describe('keys with claims of their own, of two processes on one Redis', () => {
  it('let writers of different files of a folder work together, and a writer of the folder alone', async () => {
    const [one, two] = [redis.open(), redis.open()];
    const file = (id: number) => [shared('folder:1'), `file:${id}`];
    const [first, second] = await Promise.all([one.acquire(file(1)), two.acquire(file(2))]);
    expect(await two.tryAcquire(file(1))).toBeNull();
    expect(await one.tryAcquire(exclusive('folder:1'))).toBeNull();
    const folder = one.acquire(exclusive('folder:1'));
    await until(async () => (await two.inspect('folder:1'))?.pending.length === 1);
    await Promise.all([first.release(), second.release()]);
    const alone = await folder;
    expect(await two.tryAcquire(file(3))).toBeNull();
    await alone.release();
    expect(await two.inspect('file:3')).toBeNull();
  });

  it('keep several limits in one call', async () => {
    const services = [redis.open(), redis.open()] as const;
    const running = new Map<string, number>();
    const most = new Map<string, number>();
    const change = (name: string, by: number) => {
      const count = (running.get(name) ?? 0) + by;
      running.set(name, count);
      most.set(name, Math.max(most.get(name) ?? 0, count));
    };
    const calls = Array.from({ length: 60 }, async (_, i) => {
      const customer = `customer:${i % 5}`;
      await services[i % 2]?.withLock([permits('total', 3), permits(customer, 1)], async () => {
        for (const name of ['total', customer]) change(name, 1);
        await new Promise((resolve) => setTimeout(resolve, 2));
        for (const name of ['total', customer]) change(name, -1);
      });
    });
    await Promise.all(calls);
    expect(most.get('total')).toBe(3);
    expect([...most].filter(([name, count]) => name !== 'total' && count !== 1)).toEqual([]);
  });
});
