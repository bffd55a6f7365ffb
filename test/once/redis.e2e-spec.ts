import 'reflect-metadata';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { OnceService, redisResults } from 'nestjs-distributed-lock/once';
import { createClient, RESP_TYPES } from 'redis';
import { until } from '#until';
import { failureOf } from '../support/lock-services.js';
import { ownRedis } from '../support/own-redis.js';
import { describeResultStore } from './support/results.contract.js';

const KEEP = { keepForMs: 60_000 };

describe('once on Redis', () => {
  const redis = ownRedis('once');
  const clients: { quit(): Promise<unknown> }[] = [];
  afterEach(() => Promise.all(clients.splice(0).map((client) => client.quit())));
  const ioredis = (options = {}) => {
    const client = new Redis(redis.url, options);
    clients.push(client);
    return client;
  };

  describeResultStore('Redis by ioredis', () => redisResults(ioredis()));
  describeResultStore('Redis by ioredis with a key prefix', () =>
    redisResults(ioredis({ keyPrefix: 'shop:' })),
  );
  describeResultStore('Redis by node-redis', async () => {
    const client = createClient({ url: redis.url });
    await client.connect();
    clients.push(client);
    return redisResults(client);
  });
  describeResultStore('Redis by a client of node-redis that gives texts as bytes', async () => {
    const typeMapping = { [RESP_TYPES.BLOB_STRING]: Buffer, [RESP_TYPES.NUMBER]: String };
    const client = createClient({ url: redis.url, commandOptions: { typeMapping } });
    await client.connect();
    clients.push(client);
    return redisResults(client);
  });

  /** As another process would have it. */
  const openOnce = () =>
    new OnceService(redis.open({ waitMs: 20_000 }), { results: redisResults(ioredis()) });

  it('callers of all processes get the one result as soon as it is there, by one message for each process', async () => {
    const processes = Array.from({ length: 4 }, openOnce);
    let runs = 0;
    let finish = (): void => undefined;
    const work = async () => {
      runs += 1;
      await new Promise<void>((resolve) => (finish = resolve));
      return 'done';
    };
    const first = processes[0]!.run(redis.key, KEEP, work);
    await until(() => runs === 1);
    const others = processes.flatMap((once) =>
      Array.from({ length: 25 }, () => once.outcomeOf(redis.key, KEEP, work)),
    );
    const observer = redis.open();
    await until(async () => (await observer.inspect(`once:${redis.key}`))?.pending.length === 4);
    await redis.eyes.client.config('RESETSTAT');
    const grants: string[] = [];
    const listener = ioredis();
    await listener.psubscribe('nest_lock_notify:*');
    listener.on('pmessage', (...[, , message]: string[]) => {
      if (message?.startsWith('granted ')) grants.push(message);
    });
    finish();
    await first;
    for (const other of await Promise.all(others)) expect(other).toEqual({ value: 'done', isReplay: true });
    expect(runs).toBe(1);
    await listener.ping();
    // A grant for each of the four processes, and nothing that grows with the hundred callers.
    expect(grants.length).toBeLessThanOrEqual(4);
    const stats = await redis.eyes.client.info('commandstats');
    const [, reads] = /cmdstat_get:calls=(\d+)/.exec(stats) ?? [];
    expect(Number(reads)).toBeLessThan(others.length);
  });

  it('the next caller works if the process of the first one is cut off, and the first one stores nothing', async () => {
    const late = new OnceService(redis.open({ watchdogTimeoutMs: 600, commandTimeoutMs: 100 }), {
      results: redisResults(ioredis()),
    });
    let finish = (): void => undefined;
    const first = failureOf(
      late.run(redis.key, KEEP, async ({ lock }) => {
        await new Promise<void>((resolve) => (finish = resolve));
        await until(() => lock.signal.aborted);
        return 'late';
      }),
    );
    const next = openOnce();
    const observer = redis.open();
    await until(async () => (await observer.inspect(`once:${redis.key}`)) !== null);
    await observer.forceRelease(`once:${redis.key}`);
    expect(await next.run(redis.key, KEEP, () => 'next')).toBe('next');
    finish();
    expect(await first).toMatchObject({ code: 'LOCK_LOST' });
    expect(await next.run(redis.key, KEEP, () => 'other')).toBe('next');
  });

  it('refuses what is no client', () => {
    expect(() => redisResults({} as Redis)).toThrow('redisResults takes a client');
  });
});
