import { describe, expect, it } from '@jest/globals';
import { Cluster } from 'ioredis';
import { LockStoreError, type LockService } from 'nestjs-distributed-lock';
import { quorumStore } from 'nestjs-distributed-lock/quorum';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { startRedisServer } from '#redis-server';
import { ownRedis } from '../../support/own-redis.js';
import { closeServices, failureOf, openService, openServiceOn } from '../../support/lock-services.js';
import { RedisEyes } from '../../support/redis-eyes.js';

const LEASE_MS = 1500;
const MARK = 'nest_lock_guard:';

describe('a Redis store with restartGuardMs', () => {
  const redis = ownRedis('guard', { per: 'test' });
  const open = (on = redis.server, restartGuardMs = LEASE_MS): LockService =>
    openService(on.url, { commandTimeoutMs: 300, watchdogTimeoutMs: LEASE_MS, restartGuardMs });
  /** In ms of the server's clock. */
  const openFrom = async ({ client } = redis.eyes) => Number((await client.get(MARK))?.split(' ')[0]);
  /** The guard of the first start is over. */
  const openWarm = async (on = redis.server): Promise<LockService> => {
    const service = open(on);
    await service.withLock('warm', { waitMs: 10_000 }, () => undefined);
    return service;
  };

  it('gives nobody what a holder may believe to have still, when the server has forgotten it', async () => {
    const [holder, other] = [await openWarm(), await openWarm()];
    const lock = await holder.acquire('k');
    const asked = await redis.server.restart().then(() => other.acquire('k', { waitMs: 10_000 }));
    expect(() => lock.assertHeld()).toThrow('Lost');
    expect(asked.fencingToken).toBeGreaterThan(lock.fencingToken);
    await asked.release();
  }, 30_000);

  it('grants to who asks once over a connection that the network has forgotten', async () => {
    // The new connection may take half of it.
    const commandTimeoutMs = 3000;
    const longest = { watchdogTimeoutMs: 3 * commandTimeoutMs, restartGuardMs: 3 * commandTimeoutMs };
    const service = openService(redis.proxy.url, { commandTimeoutMs, ...longest });
    await service.withLock('warm', { waitMs: 20_000 }, () => undefined);
    for (const link of redis.proxy.open) link.forgetsAfterMs = 700;
    await new Promise((resolve) => setTimeout(resolve, 1000));
    const lock = await service.acquire('k', { waitMs: 0 });
    expect(await lock.release()).toBe('released');
  }, 30_000);

  it('says why nothing is granted, how long, and which option it is', async () => {
    const error = await failureOf(open().acquire('k', { waitMs: 300 }));
    expect(error).toBeInstanceOf(LockStoreError);
    expect(error).toMatchObject({ reason: 'unready', key: 'k' });
    expect((error as Error).message).toMatch(
      /came back without its data.* for another \d+ ms \(restartGuardMs is 1500\)/,
    );
  });

  it('grants from the end of the longest lease on, and from then on at once', async () => {
    const service = open();
    const lock = await service.acquire('k', { waitMs: 10_000 });
    const from = await openFrom();
    const [seconds, micros] = (await redis.eyes.client.time()).map(Number) as [number, number];
    expect(seconds * 1000 + micros / 1000).toBeGreaterThanOrEqual(from);
    await lock.release();
    await openWarm();
    expect(await openFrom()).toBe(from);
  }, 30_000);

  it('is not called by a connection that is lost, nor by a server that kept its data', async () => {
    const server = await startRedisServer({ args: ['--appendonly', 'yes', '--appendfsync', 'always'] });
    const eyes = new RedisEyes(server.url);
    try {
      const service = await openWarm(server);
      const from = await openFrom(eyes);
      await eyes.client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      await service.withLock('k', { waitMs: 10_000 }, () => undefined);
      await server.restart();
      await service.withLock('k', { waitMs: 10_000 }, () => undefined);
      expect(await openFrom(eyes)).toBe(from);
    } finally {
      await closeServices();
      eyes.close();
      await server.stop();
    }
  }, 30_000);

  it('stands in nobody’s way once it is over: not at the start, nor when a connection is new', async () => {
    await openWarm();
    const service = open();
    const first = await service.tryAcquire('at-once');
    expect(first).not.toBeNull();
    await first?.release();
    await redis.eyes.client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    const lock = await service.acquire('again', { waitMs: 2000 });
    expect(await lock.release()).toBe('released');
  }, 30_000);

  it('is as long as the longest that any service says, in whatever order they come', async () => {
    for (const [before, own, lasts] of [
      [10_000, LEASE_MS, 10_000],
      [LEASE_MS, 10_000, 10_000],
    ] as const) {
      const from = Date.now() + before;
      await redis.eyes.client.set(MARK, `${from} ${before}`);
      const service = open(redis.server, own);
      expect(await failureOf(service.tryAcquire('k'))).toMatchObject({ reason: 'unready' });
      expect(await openFrom()).toBe(from + lasts - before);
    }
  });

  it('notices while it is connected that all data was flushed', async () => {
    const [holder, other] = [await openWarm(), await openWarm()];
    const lock = await holder.acquire('k');
    await redis.eyes.client.flushall();
    for (const keys of ['k', ['k', 'l']]) {
      expect(await failureOf(other.acquire(keys, { waitMs: 0 }))).toMatchObject({ reason: 'unready' });
    }
    const asked = await other.acquire('k', { waitMs: 10_000 });
    expect(() => lock.assertHeld()).toThrow('Lost');
    expect(asked.fencingToken).toBeGreaterThan(lock.fencingToken);
    await asked.release();
  }, 30_000);

  it('takes a mark that was evicted for lost data, and lets holders renew and release meanwhile', async () => {
    const service = await openWarm();
    const lock = await service.acquire('k');
    await redis.eyes.client.del(MARK);
    expect(await failureOf(service.tryAcquire('other'))).toMatchObject({ reason: 'unready' });
    await new Promise((resolve) => setTimeout(resolve, LEASE_MS));
    lock.assertHeld();
    expect(await lock.release()).toBe('released');
  }, 30_000);

  it('is not longer than the longest lease when the clock of the server is set back', async () => {
    await openWarm();
    await redis.eyes.client.set(MARK, `${Date.now() + 3_600_000} ${LEASE_MS}`);
    await openWarm();
    expect(await openFrom()).toBeLessThan(Date.now() + LEASE_MS);
  }, 30_000);

  it('keeps a node of a quorum out of every majority until then', async () => {
    const nodes = [redis.server, await startRedisServer(), await startRedisServer()];
    try {
      for (const node of nodes) await openWarm(node);
      const stores = nodes.map(({ url }) =>
        redisStore(url, { commandTimeoutMs: 300, restartGuardMs: LEASE_MS }),
      );
      const service = openServiceOn(quorumStore(stores), { watchdogTimeoutMs: LEASE_MS });
      await service.withLock('warm', { waitMs: 10_000 }, () => undefined);
      await nodes[1]?.restart();
      await nodes[2]?.restart();
      const error = await failureOf(service.acquire('k', { waitMs: 500 }));
      expect(error).toMatchObject({ reason: 'unready' });
      const lock = await service.acquire('k', { waitMs: 10_000 });
      lock.assertHeld();
      await lock.release();
    } finally {
      await Promise.all(nodes.slice(1).map((node) => node.stop()));
    }
  }, 60_000);

  it('is refused when it is shorter than a lease of the watchdog, and on a cluster', () => {
    expect(() => open(redis.server, LEASE_MS - 1)).toThrow(
      'restartGuardMs must be 0, or a whole number of ms and at least watchdogTimeoutMs (1500); it is 1499.',
    );
    const target = new Cluster([{ host: '127.0.0.1', port: redis.server.port }], { lazyConnect: true });
    expect(() => openService(target, { restartGuardMs: 30_000 })).toThrow(
      'restartGuardMs is not for a cluster.',
    );
    target.disconnect();
  });
});
