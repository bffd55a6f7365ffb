import { describe, expect, it } from '@jest/globals';
import { setTimeout as pause } from 'node:timers/promises';
import type { LockService } from 'nestjs-distributed-lock';
import { LIBRARIES } from '../../support/redis-library.js';
import { ownRedis } from '../../support/own-redis.js';
import { openService } from '../../support/lock-services.js';
import { until } from '#until';
import { wireName } from '../../support/wire-names.js';

/** @returns when it was over */
function blockEventLoop(): number {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
  return Date.now();
}

describe.each(LIBRARIES)('commands on the wire, by %s', (library) => {
  const redis = ownRedis('wire', { library });

  /** Everything that the service under test has written, on all its connections. */
  const written = () => redis.proxy.all.flatMap(({ commands }) => commands);

  /** Connected and subscribed, with the scripts known to the server; nothing more is written by itself. */
  const openBehindProxy = async (options: Parameters<typeof openService>[1] = {}) => {
    const service = openService(redis.targetOf(redis.proxy.url), options);
    await service.withLock(`${redis.key}:warm`, () => undefined);
    await until(
      () =>
        redis.proxy.pushes.isOpen &&
        written()
          .map(wireName)
          .some((name) => name.startsWith('release')),
    );
    await redis.eyes.untilListening(1);
    return service;
  };

  /**
   * What `service` writes during `work`, in order. It inspects a key at the end, so that all that it wrote before that has
   * arrived here; that is left out, and so are the probes of its subscriber.
   */
  const during = async (service: LockService, work: () => Promise<unknown>): Promise<string[][]> => {
    const before = new Set(written());
    const marker = `${redis.key}:marker`;
    await work();
    await service.inspect(marker);
    const commands = written().filter((command) => !before.has(command));
    expect(commands.some((command) => command.includes(marker))).toBe(true);
    return commands.filter((command) => !command.includes(marker) && wireName(command) !== 'ping');
  };
  const pings = () => written().filter((command) => wireName(command) === 'ping').length;

  const commandCalls = async (): Promise<ReadonlyMap<string, number>> => {
    const stats = await redis.eyes.client.info('commandstats');
    return new Map(
      [...stats.matchAll(/cmdstat_(\S+):calls=(\d+)/g)].map(([, name, n]) => [name as string, Number(n)]),
    );
  };

  it('an uncontended acquire and release are two commands, and nothing else', async () => {
    const service = await openBehindProxy();
    const before = await commandCalls();
    let after = before;
    const commands = await during(service, async () => {
      expect(await (await service.acquire(redis.key)).release()).toBe('released');
      after = await commandCalls();
    });
    expect(commands.map(wireName)).toEqual(['acquire', 'release']);
    expect((after.get('evalsha') ?? 0) - (before.get('evalsha') ?? 0)).toBe(2);
    expect(after.get('eval')).toBe(before.get('eval'));
  });

  it('a client tells who it is once it has held for a second, by one SET in each third of the lease', async () => {
    const service = await openBehindProxy({ application: 'shop', watchdogTimeoutMs: 6000 });
    const sets = () => written().filter(([name]) => name?.toLowerCase() === 'set');
    await (await service.acquire(redis.key)).release();
    expect(sets()).toEqual([]);
    const lock = await service.acquire(redis.key, { leaseMs: 60_000 });
    const since = performance.now();
    await until(() => sets().length === 2);
    expect(performance.now() - since).toBeGreaterThan(2000);
    expect(sets()[0]?.[1]).toMatch(/^nest_lock_client:[\w-]{36}$/);
    await lock.release();
  });

  it('nested calls for the same key cost nothing', async () => {
    const service = await openBehindProxy();
    await service.withLock(redis.key, async () => {
      const commands = await during(service, async () => {
        await service.withLock(redis.key, () => service.withLock(redis.key, () => undefined));
        await Promise.all([
          service.withLock(redis.key, () => pause(10)),
          service.tryAcquire(redis.key).then((l) => l?.release()),
        ]);
      });
      expect(commands).toEqual([]);
    });
  });

  it('a failed try costs one command, and leaves nothing to clean up', async () => {
    const service = await openBehindProxy();
    const lock = await redis.open().acquire(redis.key);
    const commands = await during(service, () => service.tryAcquire(redis.key));
    expect(commands.map(wireName)).toEqual(['acquire']);
    await lock.release();
    expect(await redis.eyes.remains(redis.key)).toEqual([]);
  });

  it('100 callers of one process ask for one key as one, and pass it on among themselves', async () => {
    const service = await openBehindProxy();
    let served = 0;
    const commands = await during(service, async () => {
      await Promise.all(
        Array.from({ length: 100 }, () => service.withLock(redis.key, () => void (served += 1))),
      );
      await until(async () => (await redis.eyes.client.exists(redis.key)) === 0);
    });
    expect(served).toBe(100);
    expect(commands.map(wireName)).toEqual(['acquire', 'release', 'acquire', 'release']);
  });

  it('a waiter behind another process is served with three commands: it asks, confirms the pushed grant, and ends', async () => {
    const service = await openBehindProxy();
    const lock = await redis.open().acquire(redis.key);
    const commands = await during(service, async () => {
      const next = service.acquire(redis.key);
      await redis.eyes.untilQueued(redis.key, 1);
      await lock.release();
      await (await next).release();
    });
    expect(commands.map(wireName)).toEqual(['acquire', 'renew-plain', 'release']);
  });

  it('while 200 callers wait for a key that another process holds, their process looks once a second at most', async () => {
    const service = await openBehindProxy();
    const lock = await redis.open().acquire(redis.key);
    const calls = Array.from({ length: 200 }, () =>
      service.acquire(redis.key, { waitMs: 20_000 }).then(
        (l) => l.release(),
        () => 'failed',
      ),
    );
    await redis.eyes.untilQueued(redis.key, 1);
    const startedAt = performance.now();
    const pingsBefore = pings();
    const commands = await during(service, () => pause(3100));
    const atMost = Math.ceil((performance.now() - startedAt) / 1000);
    expect(new Set(commands.map(wireName))).toEqual(new Set(['acquire']));
    expect(commands.length).toBeGreaterThanOrEqual(2);
    expect(commands.length).toBeLessThanOrEqual(atMost);
    // Its subscriber is asked as often whether it still hears.
    expect(pings() - pingsBefore).toBeLessThanOrEqual(atMost);
    expect(await redis.eyes.queue(redis.key)).toHaveLength(1);
    await lock.release();
    expect(new Set(await Promise.all(calls))).toEqual(new Set(['released']));
  }, 15_000);

  it('held locks are renewed after a third of their lease, those due together by one command', async () => {
    const leaseMs = 1500;
    const service = await openBehindProxy({ commandTimeoutMs: 500, watchdogTimeoutMs: leaseMs });
    const keys = Array.from({ length: 20 }, (_, i) => `${redis.key}:${i}`);
    const locks = await Promise.all(keys.map((name) => service.acquire(name)));
    const startedAt = performance.now();
    const commands = await during(service, () => pause(2 * leaseMs));
    const thirds = (performance.now() - startedAt) / (leaseMs / 3);
    const names = commands.map(wireName).map((name) => name.replace(' in full', ''));
    expect(names.filter((name) => name !== 'renew-plain')).toEqual([]);
    for (const name of keys) {
      const renewals = commands.filter((command) => command.includes(name)).length;
      // Up to a tenth of a third early, and up to a round and a busy machine late.
      expect(renewals).toBeGreaterThanOrEqual(Math.floor(thirds / 1.5));
      expect(renewals).toBeLessThanOrEqual(Math.ceil(thirds / 0.9));
    }
    expect(commands.length).toBeLessThan((keys.length * thirds) / 2);
    expect(locks.every((lock) => lock.validForMs > 0)).toBe(true);
    await Promise.all(locks.map((lock) => lock.release()));
  }, 15_000);

  it('a flush of all scripts costs one command more for each script, once', async () => {
    const service = await openBehindProxy();
    const turn = async () => (await service.acquire(redis.key)).release();
    await redis.eyes.client.script('FLUSH');
    const first = await during(service, turn);
    expect(first.map(wireName)).toEqual(['acquire', 'acquire in full', 'release', 'release in full']);
    expect((await during(service, turn)).map(wireName)).toEqual(['acquire', 'release']);
  });
});

// node-redis writes commands at the end of the turn of the event loop.
describe('a command by ioredis', () => {
  const redis = ownRedis('at-once');

  it('an acquire leaves at once when nothing else is under way, whatever its process does next', async () => {
    // Past the proxy, which lives in this process, too.
    const service = redis.open();
    await service.withLock(`${redis.key}:warm`, () => undefined);
    await until(async () => (await service.inspect(`${redis.key}:warm`)) === null);
    const asked = service.acquire(redis.key);
    const free = blockEventLoop();
    const lock = await asked;
    // Its token is the server's time of the grant, in µs.
    expect(lock.fencingToken / 1000).toBeLessThan(free);
    await lock.release();
  });

  it('a release that is awaited leaves at once, too', async () => {
    const service = redis.open();
    const lock = await service.acquire(redis.key);
    const endedAt: number[] = [];
    const monitor = await redis.eyes.client.monitor();
    monitor.on('monitor', (seconds: string, words: string[]) => {
      if (wireName(words) === 'release' && words.includes(redis.key)) endedAt.push(Number(seconds) * 1000);
    });
    const released = lock.release();
    const free = blockEventLoop();
    expect(await released).toBe('released');
    await until(() => endedAt.length > 0);
    monitor.disconnect();
    expect(endedAt[0]).toBeLessThan(free);
  });
});
