import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis, type RedisOptions } from 'ioredis';
import { closeServices, elapsed, openService } from '../../../support/lock-services.js';
import { startSentinelSet } from '#redis-topologies';
import { TcpProxy } from '#tcp-proxy';
import { until } from '#until';
import { ownServer } from '../../../support/own-server.js';

const LEASE_MS = 3000;
/** After the promotion: a new connection, and one look. */
const BACK_MS = 1500;
const SLACK_MS = 900;

describe('Redis behind a sentinel', () => {
  const set = ownServer(startSentinelSet);
  let key: string;
  let count = 0;
  beforeEach(() => {
    key = `sentinel:${++count}`;
  });
  afterEach(closeServices);

  const open = () => openService({ ...set.options }, { commandTimeoutMs: 500, watchdogTimeoutMs: LEASE_MS });

  it('the options of a sentinel are enough: locks are passed on between two services on the master', async () => {
    const [first, second] = [open(), open()];
    const lock = await first.acquire(key);
    const next = second.acquire(key);
    const eyes = new Redis(await set.masterPort(), '127.0.0.1');
    await until(async () => (await eyes.zcard(`nest_lock_queue:{${key}}`)) === 1);
    expect(await eyes.exists(key)).toBe(1);
    eyes.disconnect();
    expect(await lock.release()).toBe('released');
    expect((await next).fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(await (await next).release()).toBe('released');
  }, 15_000);

  it('after a failover new calls succeed within their waitMs, tokens grow, and a replicated lock is still held', async () => {
    const [first, second] = [open(), open()];
    const kept = await first.acquire(`${key}:kept`);
    const token = await first.withLock(key, (lock) => lock.fencingToken);
    await second.withLock(`${key}:warm`, () => undefined);

    await set.failover();
    const lock = second.acquire(key, { waitMs: 5000 });
    expect(await elapsed(lock)).toBeLessThan(BACK_MS + SLACK_MS);
    expect((await lock).fencingToken).toBeGreaterThan(token);
    const again = await first.acquire(`${key}:again`, { waitMs: 5000 });
    expect(kept.validForMs).toBeGreaterThan(0);
    expect(await second.tryAcquire(`${key}:kept`)).toBeNull();
    expect(await kept.release()).toBe('released');
    // The old master grants until it is demoted, and what it grants then is gone with it: that is told, too.
    for (const held of [await lock, again]) expect(['released', 'lost']).toContain(await held.release());

    const eyes = new Redis(await set.masterPort(), '127.0.0.1');
    await until(async () => (await eyes.exists(key, `${key}:kept`, `${key}:again`)) === 0);
    eyes.disconnect();
  }, 40_000);

  describe('a client that ioredis has given up for good comes back', () => {
    let proxy: TcpProxy;
    /** What answers for the sentinel. */
    beforeEach(async () => {
      proxy = await TcpProxy.before(Number(set.options.sentinels?.[0]?.port));
    });
    afterEach(async () => {
      await closeServices();
      await proxy.close();
    });
    const openBehind = (more: RedisOptions = {}) => {
      const sentinels = [{ host: '127.0.0.1', port: proxy.port }];
      return openService(
        { ...set.options, ...more, sentinels },
        { commandTimeoutMs: 500, watchdogTimeoutMs: LEASE_MS },
      );
    };

    it('where no sentinel answered and it may not ask again by itself', async () => {
      proxy.onLink = (link) => link.reset();
      const service = openBehind({ sentinelRetryStrategy: () => null });
      await until(() => proxy.all.length >= 2);
      proxy.onLink = () => undefined;
      expect(await service.withLock(key, { waitMs: 10_000 }, () => 'in')).toBe('in');
    }, 20_000);

    it('where a failover was told while it asked who is master', async () => {
      const service = openBehind();
      await service.withLock(key, () => undefined);
      await until(() => proxy.open.filter((link) => link.has('subscribe')).length === 2);
      const before = proxy.all.length;
      proxy.onLink = (link) => link.replies.hold();
      const eyes = new Redis(await set.masterPort(), '127.0.0.1');
      for (const type of ['normal', 'pubsub'])
        await eyes.call('CLIENT', 'KILL', 'TYPE', type, 'SKIPME', 'yes');
      eyes.disconnect();
      const asking = () => proxy.all.slice(before);
      await until(() => asking().length >= 2);
      const [sentinel] = set.options.sentinels ?? [];
      const told = new Redis(Number(sentinel?.port), '127.0.0.1');
      await told.subscribe('+switch-master');
      const isTold = once(told, 'message');
      await set.failover();
      await isTold;
      told.disconnect();
      proxy.onLink = () => undefined;
      for (const link of asking()) link.replies.pass();
      expect(await service.withLock(key, { waitMs: 10_000 }, () => 'in')).toBe('in');
    }, 40_000);
  });

  it('a connection to a Sentinel that is opened again, and closed before it is subscribed, rejects for nobody', async () => {
    const proxy = await TcpProxy.before(Number(set.options.sentinels?.[0]?.port));
    const sentinels = [{ host: '127.0.0.1', port: proxy.port }];
    const service = openService({ ...set.options, sentinels, sentinelReconnectStrategy: () => 20 });
    await service.withLock(key, () => undefined);
    const subscribing = () => proxy.open.filter((link) => link.has('subscribe'));
    await until(() => subscribing().length === 2);
    const old = subscribing();
    proxy.onLink = (link) => {
      link.requests.edit = (chunk) => {
        if (chunk.includes('subscribe')) link.vanish();
        return chunk;
      };
    };
    for (const link of old) link.reset();
    await until(() => old.every(({ isOpen }) => !isOpen) && subscribing().length === 2);
    const unhandled = subscribing();
    await closeServices();
    await until(() => proxy.open.length === 0);
    // A rejection that nobody handles fails this file.
    expect(unhandled).toHaveLength(2);
    await proxy.close();
  }, 20_000);

  it('the crash of the master fails nobody who waits long enough, and tokens grow', async () => {
    const service = open();
    const token = await service.withLock(key, (lock) => lock.fencingToken);
    const before = await set.masterPort();
    await set.servers.find(({ port }) => port === before)?.kill();
    const lock = service.acquire(key, { waitMs: 30_000 });
    await until(async () => (await set.masterPort()) !== before);
    expect(await elapsed(lock)).toBeLessThan(BACK_MS + SLACK_MS);
    expect((await lock).fencingToken).toBeGreaterThan(token);
    expect(await (await lock).release()).toBe('released');
  }, 40_000);
});
