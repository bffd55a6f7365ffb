import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { startRedisServer, type RedisServer } from '#redis-server';
import { closeServices, elapsed, openService, untilAborted } from '../../support/lock-services.js';
import { RedisEyes } from '../../support/redis-eyes.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';

const LEASE_MS = 1500;
const LOOK_MS = 1000;
const SLACK_MS = 500;

describe('data that Redis loses', () => {
  let server: RedisServer;
  let eyes: RedisEyes;
  let key: string;
  let count = 0;

  beforeAll(async () => {
    server = await startRedisServer();
    eyes = new RedisEyes(server.url);
  }, 20_000);
  beforeEach(() => {
    key = `data:${++count}`;
  });
  afterEach(closeServices);
  afterAll(async () => {
    eyes.close();
    await server.stop();
  });

  const open = () => openService(server.url, { commandTimeoutMs: 300, watchdogTimeoutMs: LEASE_MS });

  const holdAndWait = async () => {
    const lock = await open().acquire(key);
    const next = open().acquire(key);
    await eyes.untilInLine(key, 1);
    return { lock, next };
  };

  const faults: [name: string, fault: () => Promise<unknown>][] = [
    ['its key is deleted', () => eyes.client.del(key)],
    ['its key and its counter are deleted', () => eyes.client.del(key, `nest_lock_token:{${key}}`)],
    ['everything is flushed', () => eyes.client.flushall()],
    ['the server restarts empty', () => server.restart()],
  ];

  it.each(faults)(
    'a holder is told by its next renewal when %s, and the next owner has a larger token',
    async (_name, fault) => {
      const { lock, next } = await holdAndWait();
      const told = untilAborted(lock.signal);
      await fault();
      const toldAfter = await elapsed(told);
      expect(toldAfter).toBeLessThan(LEASE_MS / 3 + SLACK_MS);
      expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'taken', key });
      expect(await elapsed(next)).toBeLessThan(LOOK_MS + SLACK_MS);
      expect((await next).fencingToken).toBeGreaterThan(lock.fencingToken);
      expect(await lock.release()).toBe('lost');
      expect(await (await next).release()).toBe('released');
    },
    15_000,
  );

  it('a lost line comes back in its order, by the places that its members remember', async () => {
    const proxy = await TcpProxy.before(server.port);
    const slow = openService(proxy.url, { commandTimeoutMs: 5000, watchdogTimeoutMs: 15_000 });
    const lock = await open().acquire(key);
    const served: number[] = [];
    const waiting: Promise<void>[] = [];
    for (const [i, service] of [slow, open(), open()].entries()) {
      waiting.push(service.withLock(key, () => void served.push(i)));
      await eyes.untilInLine(key, i + 1);
    }
    const before = await eyes.line(key);
    // The first one is the last to notice.
    proxy.commands.requests.hold();
    await eyes.client.del(`nest_lock_queue:{${key}}`, `nest_lock_meta:{${key}}`);
    await eyes.untilInLine(key, 2);
    proxy.commands.requests.pass();
    await eyes.untilInLine(key, 3);
    expect(await eyes.line(key)).toEqual(before);
    await lock.release();
    await Promise.all(waiting);
    expect(served).toEqual([0, 1, 2]);
    await closeServices();
    await proxy.close();
  }, 15_000);

  it('fencing tokens grow over all losses of data, one after the other', async () => {
    const tokens: number[] = [];
    const service = open();
    const take = () => service.withLock(key, (lock) => void tokens.push(lock.fencingToken));
    await take();
    await eyes.client.flushall();
    await take();
    await eyes.client.del(`nest_lock_token:{${key}}`);
    await take();
    await server.restart();
    await take();
    await open().withLock(key, (lock) => void tokens.push(lock.fencingToken));
    expect(tokens).toHaveLength(5);
    expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b));
  }, 15_000);

  it('a counter that was evicted under a holder comes back with its renewal', async () => {
    const service = open();
    const lock = await service.acquire(key);
    await eyes.client.del(`nest_lock_token:{${key}}`);
    await until(async () => (await eyes.client.exists(`nest_lock_token:{${key}}`)) === 1);
    expect(lock.validForMs).toBeGreaterThan(0);
    expect(await eyes.client.get(`nest_lock_token:{${key}}`)).toMatch(`${lock.fencingToken}`);
    await lock.release();
  });

  it('a token seen on one key raises those of all keys when the server forgets its time', async () => {
    const service = open();
    const ahead = Date.now() * 1000 + 60_000_000;
    await eyes.client.set(`nest_lock_token:{${key}}`, `${ahead} ${ahead}`);
    await service.withLock(key, (lock) => expect(lock.fencingToken).toBeGreaterThan(ahead));
    await eyes.client.flushall();
    await service.withLock(`${key}:other`, (lock) => expect(lock.fencingToken).toBeGreaterThan(ahead));
  });
});
