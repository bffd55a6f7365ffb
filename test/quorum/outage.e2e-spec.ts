import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { LockService, type LockEvent } from 'nestjs-distributed-lock';
import { quorumStore } from 'nestjs-distributed-lock/quorum';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { startRedisServer, type RedisServer } from '#redis-server';
import { eventsOf, typesOf } from '../support/events.js';
import { elapsed, failureOf, untilAborted } from '../support/lock-services.js';
import { until } from '#until';

const COMMAND_TIMEOUT_MS = 300;

let servers: RedisServer[];
let services: LockService[];
beforeEach(async () => {
  services = [];
  servers = await Promise.all([1, 2, 3].map(() => startRedisServer()));
}, 60_000);
afterEach(async () => {
  await Promise.all(services.map((service) => service.close()));
  await Promise.all(servers.map((server) => server.stop()));
});

function open(watchdogTimeoutMs = 30_000): LockService {
  const nodes = servers.map(({ url }) => redisStore(url, { commandTimeoutMs: COMMAND_TIMEOUT_MS }));
  const service = new LockService({ shutdownGraceMs: 0, watchdogTimeoutMs, store: quorumStore(nodes) });
  service.open();
  services.push(service);
  return service;
}

const [first, second, third] = [0, 1, 2].map((i) => () => servers[i] as RedisServer) as [
  () => RedisServer,
  () => RedisServer,
  () => RedisServer,
];

describe('when a majority of the nodes is away', () => {
  it('an acquire fails by its waitMs and one command, and says which nodes did not answer', async () => {
    const service = open();
    await service.withLock('warm', () => undefined);
    await Promise.all([first().kill(), third().kill()]);
    const asked = failureOf(service.acquire('k', { waitMs: 1000 }));
    expect(await elapsed(asked)).toBeLessThan(1000 + 2 * COMMAND_TIMEOUT_MS);
    expect(await asked).toMatchObject({ code: 'LOCK_STORE' });
    expect((await asked) as Error).toHaveProperty(
      'message',
      expect.stringMatching(/1 of 3 nodes answered, 2 are needed\. node 1 \(redis\): .*; node 3 \(redis\): /),
    );
  });

  it('a holder is told by its own deadline, and the locks are there again when the nodes are', async () => {
    const service = open(1500);
    const lock = await service.acquire('k');
    const events: LockEvent[] = eventsOf(service);
    await Promise.all([first().kill(), second().kill()]);
    await untilAborted(lock.signal);
    expect(() => lock.assertHeld()).toThrow(/Lost "k"/);
    expect(typesOf(events)).toEqual(expect.arrayContaining(['suspended', 'lost']));
    await Promise.all([first().restart(), second().restart()]);
    const next = await service.acquire('k', { waitMs: 10_000 });
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
  }, 30_000);
});

describe('while a minority of the nodes is away', () => {
  it('a lock is renewed, passed on by its release, and given back as if nothing were', async () => {
    const [one, other] = [open(1500), open(1500)];
    await Promise.all([one, other].map((service) => service.withLock('warm', () => undefined)));
    await second().pause();
    const lock = await one.acquire('k');
    const waiting = other.acquire('k', { waitMs: 20_000 });
    await until(async () => ((await one.inspect('k'))?.pending.length ?? 0) === 1);
    const validUntil = performance.now() + lock.validForMs;
    await until(() => performance.now() + lock.validForMs > validUntil + 500);
    expect(await lock.release()).toBe('released');
    const next = await waiting;
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(await next.release()).toBe('released');
    await second().resume();
    await until(async () => (await one.inspect('k')) === null);
  }, 30_000);

  it('a lock outlives restarts of all nodes, one after the other', async () => {
    const service = open(1500);
    const lock = await service.acquire('k');
    for (const server of servers) {
      await server.restart();
      // Until the holder has taken it back in.
      const node = redisStore(server.url).create({
        clock: service.options.clock,
        keyPrefix: '',
        watchdogTimeoutMs: 30_000,
      });
      await until(async () => (await node.inspect('k')) !== null);
      await node.close();
    }
    lock.assertHeld();
    expect(await lock.release()).toBe('released');
  }, 30_000);
});
