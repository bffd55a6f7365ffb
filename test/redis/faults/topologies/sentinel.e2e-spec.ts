import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis, type RedisOptions } from 'ioredis';
import { closeServices, elapsed, openService } from '../../../support/lock-services.js';
import { LIBRARIES, sentinelTargetOf, type SentinelTarget } from '../../../support/redis-library.js';
import { ownServer } from '../../../support/own-server.js';
import { startSentinelSet } from '#redis-topologies';
import { TcpProxy } from '#tcp-proxy';
import { until } from '#until';

const LEASE_MS = 3000;
/** After the promotion: a new connection, and one look. */
const BACK_MS = 1500;
const SLACK_MS = 900;

describe.each(LIBRARIES)('Redis behind a Sentinel, by %s', (library) => {
  const set = ownServer(startSentinelSet);
  let key: string;
  let count = 0;

  beforeEach(() => {
    key = `sentinel:${++count}`;
  });
  afterEach(closeServices);

  const openBy = (target: Partial<SentinelTarget>, more?: RedisOptions) =>
    openService(sentinelTargetOf(library, { ...set.options, ...target }, more), {
      commandTimeoutMs: 500,
      watchdogTimeoutMs: LEASE_MS,
    });
  const open = () => openBy({});
  const at = (port: number) => ({ host: '127.0.0.1', port });

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
    // Without renewals: the old master takes some until it is demoted, and the new one does not know of them.
    const kept = await first.acquire(`${key}:kept`, { leaseMs: 15_000 });
    const token = await first.withLock(key, (lock) => lock.fencingToken);
    await second.withLock(`${key}:warm`, () => undefined);
    const writer = new Redis(await set.masterPort(), '127.0.0.1');
    await writer.set(`${key}:last`, 1, 'PX', 60_000);
    expect(await writer.wait(1, 10_000)).toBeGreaterThan(0);
    writer.disconnect();

    await set.failover();
    const lock = second.acquire(key, { waitMs: 5000 });
    expect(await elapsed(lock)).toBeLessThan(BACK_MS + SLACK_MS);
    expect((await lock).fencingToken).toBeGreaterThan(token);
    const again = await first.acquire(`${key}:again`, { waitMs: 5000 });
    expect(kept.validForMs).toBeGreaterThan(0);
    // It may be asked in the moment in which its connection goes to the new master.
    expect(await second.tryAcquire(`${key}:kept`).catch(() => null)).toBeNull();
    expect(await kept.release()).toBe('released');
    // The old master grants until it is demoted, and what it grants then is gone with it: that is told, too.
    for (const held of [await lock, again])
      expect(['released', 'lost', 'unknown']).toContain(await held.release());

    const eyes = new Redis(await set.masterPort(), '127.0.0.1');
    await until(async () => (await eyes.exists(key, `${key}:kept`, `${key}:again`)) === 0);
    eyes.disconnect();
  }, 40_000);

  it('a service that no Sentinel has answered comes back as soon as one does', async () => {
    const proxy = await TcpProxy.before(set.sentinelPort);
    proxy.onLink = (link) => link.reset();
    const service = openBy({ sentinels: [at(proxy.port)] }, { sentinelRetryStrategy: () => null });
    await until(() => proxy.all.length >= 2);
    proxy.onLink = () => undefined;
    expect(await service.withLock(key, { waitMs: 10_000 }, () => 'in')).toBe('in');
    await closeServices();
    await proxy.close();
  }, 20_000);

  it('a connection to a Sentinel that is opened again, and closed before it is subscribed, rejects for nobody', async () => {
    const proxy = await TcpProxy.before(set.sentinelPort);
    const service = openBy({ sentinels: [at(proxy.port)] }, { sentinelReconnectStrategy: () => 20 });
    await service.withLock(key, () => undefined);
    const subscribing = () => proxy.open.filter((link) => link.has('subscribe'));
    await until(() => subscribing().length === 2);
    const old = subscribing();
    proxy.onLink = (link) => {
      link.requests.edit = (chunk) => {
        if (chunk.toString().toLowerCase().includes('subscribe')) link.vanish();
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

describe.each(LIBRARIES)(
  'a master that is cut off from its Sentinel and goes on answering, by %s',
  (library) => {
    let admin: Redis;
    afterAll(() => admin?.disconnect());
    const set = ownServer(startSentinelSet);

    beforeAll(async () => {
      admin = new Redis(await set.masterPort(), '127.0.0.1');
      for (const { url } of set.servers) {
        const server = new Redis(url);
        await server.acl('SETUSER', 'locks', 'on', '>secret', '~*', '&*', '+@all');
        server.disconnect();
      }
    });
    afterEach(closeServices);

    it('is left by all services for the one that the Sentinel names', async () => {
      const before = await set.masterPort();
      const service = openService(
        sentinelTargetOf(library, { ...set.options, username: 'locks', password: 'secret' }),
        { commandTimeoutMs: 500, watchdogTimeoutMs: LEASE_MS },
      );
      const token = await service.withLock('cut-off', (lock) => lock.fencingToken);
      await admin.acl('SETUSER', 'default', 'off');
      await admin.call('CLIENT', 'KILL', 'USER', 'default', 'SKIPME', 'yes');
      await until(async () => (await set.masterPort()) !== before, 30_000);
      const eyes = new Redis(await set.masterPort(), '127.0.0.1');
      await until(() =>
        service.withLock('cut-off', { waitMs: 5000 }, async ({ fencingToken }) => {
          expect(fencingToken).toBeGreaterThan(token);
          return (await eyes.exists('cut-off')) === 1;
        }),
      );
      eyes.disconnect();
    }, 60_000);
  },
);

describe('by ioredis, which gives up for good when a failover is told while it asks who is master', () => {
  const set = ownServer(startSentinelSet);

  afterEach(closeServices);

  it('a service comes back', async () => {
    const proxy = await TcpProxy.before(set.sentinelPort);
    const sentinels = [{ host: '127.0.0.1', port: proxy.port }];
    const service = openService(
      { ...set.options, sentinels },
      { commandTimeoutMs: 500, watchdogTimeoutMs: LEASE_MS },
    );
    await service.withLock('asked', () => undefined);
    await until(() => proxy.open.filter((link) => link.has('subscribe')).length === 2);
    const before = proxy.all.length;
    proxy.onLink = (link) => link.replies.hold();
    const eyes = new Redis(await set.masterPort(), '127.0.0.1');
    for (const type of ['normal', 'pubsub']) await eyes.call('CLIENT', 'KILL', 'TYPE', type, 'SKIPME', 'yes');
    eyes.disconnect();
    const asking = () => proxy.all.slice(before);
    await until(() => asking().length >= 2);
    const told = new Redis(set.sentinelPort, '127.0.0.1');
    await told.subscribe('+switch-master');
    const isTold = once(told, 'message');
    await set.failover();
    await isTold;
    told.disconnect();
    proxy.onLink = () => undefined;
    for (const link of asking()) link.replies.pass();
    expect(await service.withLock('asked', { waitMs: 10_000 }, () => 'in')).toBe('in');
    await closeServices();
    await proxy.close();
  }, 40_000);
});

describe('by node-redis, which the store asks for connections to every Sentinel', () => {
  const set = ownServer(startSentinelSet);

  afterEach(closeServices);

  it('one that has not heard of a failover is not believed, however soon it answers', async () => {
    const [stale, other] = [await TcpProxy.before(set.sentinelPort), await TcpProxy.before(set.sentinelPort)];
    const [before, ...others] = [await set.masterPort(), ...set.servers.map(({ port }) => port)];
    const after = others.find((port) => port !== before);
    // A Sentinel of the time before: the old port, and the epoch 0 of a master that was never replaced.
    let told = 0;
    const asBefore = (chunk: Buffer) => {
      const text = chunk.toString('latin1');
      const edited = text
        .replace(/(\$4\r\nport\r\n\$5\r\n)\d{5}/, (_, head: string) => `${head}${before}`)
        .replace(/(\$12\r\nconfig-epoch\r\n\$1\r\n)\d/, (_, head: string) => `${head}0`);
      if (edited !== text) told += 1;
      return Buffer.from(edited, 'latin1');
    };
    stale.onLink = (link) => (link.replies.edit = asBefore);
    other.onLink = (link) => link.replies.pass(30);
    const sentinels = [stale, other].map(({ port }) => ({ host: '127.0.0.1', port }));
    const service = openService(sentinelTargetOf('node-redis', { ...set.options, sentinels }), {
      commandTimeoutMs: 500,
      watchdogTimeoutMs: LEASE_MS,
    });
    await service.withLock('stale', () => undefined);
    await set.failover();
    const eyes = new Redis(Number(after), '127.0.0.1');
    await until(() =>
      service.withLock('stale', { waitMs: 5000 }, async () => (await eyes.exists('stale')) === 1),
    );
    for (let round = 0; round < 5; round++) {
      await service.withLock(`stale:${round}`, { waitMs: 5000 }, async () => {
        expect(await eyes.exists(`stale:${round}`)).toBe(1);
      });
      await eyes.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    }
    eyes.disconnect();
    expect(told).toBeGreaterThan(5);
    await closeServices();
    await Promise.all([stale.close(), other.close()]);
  }, 60_000);
});
