import { describe, expect, it } from '@jest/globals';
import { ownRedis } from '../../support/own-redis.js';
import { elapsed, openService, untilAborted } from '../../support/lock-services.js';
import type { LockService } from 'nestjs-distributed-lock';
import { until } from '#until';

const LEASE_MS = 1500;
const RECHECK_MS = 1000;
const SLACK_MS = 900;

describe('data that Redis loses', () => {
  const redis = ownRedis('data');

  const open = () => redis.open({ commandTimeoutMs: 300, watchdogTimeoutMs: LEASE_MS });

  const holdAndWait = async () => {
    const lock = await open().acquire(redis.key);
    const next = open().acquire(redis.key);
    await redis.eyes.untilQueued(redis.key, 1);
    return { lock, next };
  };

  const faults: [name: string, fault: () => Promise<unknown>][] = [
    ['its key is deleted', () => redis.eyes.client.del(redis.key)],
    [
      'its key and its counter are deleted',
      () => redis.eyes.client.del(redis.key, `nest_lock_token:{${redis.key}}`),
    ],
    ['everything is flushed', () => redis.eyes.client.flushall()],
    ['the server restarts empty', () => redis.server.restart()],
  ];

  it.each(faults)(
    'a holder is told by its next renewal when %s, and the next owner has a larger token',
    async (_name, fault) => {
      const { lock, next } = await holdAndWait();
      const told = untilAborted(lock.signal);
      await fault();
      const toldAfter = await elapsed(told);
      expect(toldAfter).toBeLessThan(LEASE_MS / 3 + SLACK_MS);
      expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'taken', key: redis.key });
      expect(await elapsed(next)).toBeLessThan(RECHECK_MS + SLACK_MS);
      expect((await next).fencingToken).toBeGreaterThan(lock.fencingToken);
      expect(await lock.release()).toBe('lost');
      expect(await (await next).release()).toBe('released');
    },
    15_000,
  );

  it('a lost queue comes back in its order, by the tickets that its members present', async () => {
    const slow = openService(redis.proxy.url, { commandTimeoutMs: 5000, watchdogTimeoutMs: 15_000 });
    const lock = await open().acquire(redis.key);
    const served: number[] = [];
    const waiting: Promise<void>[] = [];
    for (const [i, service] of [slow, open(), open()].entries()) {
      waiting.push(service.withLock(redis.key, () => void served.push(i)));
      await redis.eyes.untilQueued(redis.key, i + 1);
    }
    const before = await redis.eyes.queue(redis.key);
    // The first one is the last to notice.
    redis.proxy.commands.requests.hold();
    await redis.eyes.client.del(`nest_lock_queue:{${redis.key}}`, `nest_lock_meta:{${redis.key}}`);
    await redis.eyes.untilQueued(redis.key, 2);
    redis.proxy.commands.requests.pass();
    await redis.eyes.untilQueued(redis.key, 3);
    expect(await redis.eyes.queue(redis.key)).toEqual(before);
    await lock.release();
    await Promise.all(waiting);
    expect(served).toEqual([0, 1, 2]);
  }, 15_000);

  it('fencing tokens grow over all losses of data, one after the other', async () => {
    const tokens: number[] = [];
    const service = open();
    const take = () => service.withLock(redis.key, (lock) => void tokens.push(lock.fencingToken));
    await take();
    await redis.eyes.client.flushall();
    await take();
    await redis.eyes.client.del(`nest_lock_token:{${redis.key}}`);
    await take();
    await redis.server.restart();
    await take();
    await open().withLock(redis.key, (lock) => void tokens.push(lock.fencingToken));
    expect(tokens).toHaveLength(5);
    expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b));
  }, 15_000);

  it('a counter that was evicted under a holder comes back with its renewal', async () => {
    const service = open();
    const lock = await service.acquire(redis.key);
    await redis.eyes.client.del(`nest_lock_token:{${redis.key}}`);
    await until(async () => (await redis.eyes.client.exists(`nest_lock_token:{${redis.key}}`)) === 1);
    expect(lock.validForMs).toBeGreaterThan(0);
    expect(await redis.eyes.client.get(`nest_lock_token:{${redis.key}}`)).toMatch(`${lock.fencingToken}`);
    await lock.release();
  });

  it('a token seen on one key raises those of all keys when the server forgets its time', async () => {
    const service = open();
    const ahead = Date.now() * 1000 + 60_000_000;
    await redis.eyes.client.set(`nest_lock_token:{${redis.key}}`, `${ahead} ${ahead}`);
    await service.withLock(redis.key, (lock) => expect(lock.fencingToken).toBeGreaterThan(ahead));
    await redis.eyes.client.flushall();
    await service.withLock(`${redis.key}:other`, (lock) => expect(lock.fencingToken).toBeGreaterThan(ahead));
  });

  it('tokens of a key that processes pass to and fro stay close to the clock that a server without its data goes on from', async () => {
    const processes = [open(), open(), open()];
    const tokens: number[] = [];
    const stay = async (service: LockService) => {
      for (let i = 0; i < 200; i++) {
        await service.withLock(redis.key, (lock) => void tokens.push(lock.fencingToken));
      }
    };
    // Each process has several callers, so it reserves tokens for local hand-offs.
    await Promise.all(processes.flatMap((service) => [stay(service), stay(service), stay(service)]));
    const [seconds, micros] = await redis.eyes.client.time();
    expect(tokens).toEqual(tokens.toSorted((a, b) => a - b));
    expect(Math.max(...tokens)).toBeLessThan(Number(seconds) * 1e6 + Number(micros));
  }, 15_000);
});
