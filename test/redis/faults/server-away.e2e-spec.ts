import { describe, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { ownRedis } from '../../support/own-redis.js';
import { eventsOf, typesOf } from '../../support/events.js';
import { elapsed, failureOf, untilAborted } from '../../support/lock-services.js';
import { LIBRARIES } from '../../support/redis-library.js';
import { until } from '#until';

const LEASE_MS = 1500;
const COMMAND_MS = 300;
const SLACK_MS = 900;
/** A new connection is tried after a second at the latest. */
const RECONNECT_MS = 1000;

describe.each(LIBRARIES)('a Redis that is away, by %s', (library) => {
  const redis = ownRedis('away', { per: 'test', library });

  const open = () => redis.open({ commandTimeoutMs: COMMAND_MS, watchdogTimeoutMs: LEASE_MS });
  const openWarm = async () => {
    const service = open();
    await service.withLock(`${redis.key}:warm`, () => undefined);
    return service;
  };
  const away: [name: string, leave: () => Promise<void>][] = [
    ['is gone', () => redis.server.kill()],
    ['is frozen', () => redis.server.pause()],
  ];

  it('an acquire before the server has ever been up fails clearly by its waitMs, and works once it is up', async () => {
    await redis.server.kill();
    const service = open();
    const asked = performance.now();
    const [waited, asking] = await Promise.all([
      failureOf(service.acquire(redis.key, { waitMs: 700 })),
      failureOf(service.tryAcquire(`${redis.key}:other`)),
    ]);
    expect(performance.now() - asked).toBeLessThan(700 + COMMAND_MS + SLACK_MS);
    expect(waited).toMatchObject({ code: 'LOCK_STORE', key: redis.key });
    expect(String(waited)).toMatch(`Could not acquire "${redis.key}" within 700 ms`);
    expect(String(waited)).toMatch('ECONNREFUSED');
    expect(asking).toMatchObject({ code: 'LOCK_STORE', reason: 'unreachable' });

    const patient = service.acquire(redis.key, { waitMs: 10_000 });
    await redis.server.restart();
    expect(await elapsed(patient)).toBeLessThan(RECONNECT_MS + SLACK_MS);
    expect(await (await patient).release()).toBe('released');
  });

  it.each(away)(
    'a caller that waits less than one command takes is told of the store, not of a holder, when the server %s',
    async (_name, leave) => {
      const service = await openWarm();
      await leave();
      const failure = failureOf(service.acquire(redis.key, { waitMs: COMMAND_MS / 3 }));
      expect(await elapsed(failure)).toBeLessThan(COMMAND_MS / 3 + COMMAND_MS + SLACK_MS);
      expect(await failure).toMatchObject({ code: 'LOCK_STORE' });
    },
  );

  it.each(away)(
    'a holder is told at its deadline, not later, when the server %s',
    async (_name, leave) => {
      const service = await openWarm();
      const events = eventsOf(service);
      const lock = await service.acquire(redis.key);
      const valid = lock.validForMs;
      await leave();
      // A renewal may have been answered before the server left.
      const lost = untilAborted(lock.signal);
      const toldAfter = await elapsed(lost);
      expect(valid).toBeLessThanOrEqual(LEASE_MS);
      expect(toldAfter).toBeLessThan(LEASE_MS + 100);
      expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
      expect(lock.validForMs).toBe(0);
      expect(() => lock.assertHeld()).toThrow('Another owner may hold it now');
      const ofLock = typesOf(events.filter(({ key }) => key !== undefined));
      expect(ofLock).toEqual(['acquired', 'suspended', 'lost']);
      expect(events).toContainEqual(expect.objectContaining({ type: 'store' }));
      expect(await lock.release()).toBe('lost');
    },
    15_000,
  );

  it('two holders never believe in one lock at once when the server stalls for longer than a lease and wakes', async () => {
    const [first, second] = [await openWarm(), await openWarm()];
    const lock = await first.acquire(redis.key);
    const next = second.acquire(redis.key, { waitMs: 20_000 });
    await redis.eyes.untilQueued(redis.key, 1);
    await redis.server.pause();
    await untilAborted(lock.signal);
    await redis.server.resume();
    const successor = await next;
    expect(lock.validForMs).toBe(0);
    expect(successor.fencingToken).toBeGreaterThan(lock.fencingToken);
    await successor.release();
    await until(async () => (await redis.eyes.remains(redis.key)).length === 0);
  }, 20_000);

  it('a stall shorter than what is left of the lease costs the holder nothing', async () => {
    const service = await openWarm();
    const events = eventsOf(service);
    const lock = await service.acquire(redis.key);
    await redis.server.pause();
    await until(() => events.some(({ type }) => type === 'suspended'));
    await redis.server.resume();
    await until(() => events.some(({ type }) => type === 'resumed'));
    expect(lock.validForMs).toBeGreaterThan(0);
    expect(await lock.release()).toBe('released');
  });

  it('acquires that a stalled server reads when it wakes hold nothing for callers that have given up', async () => {
    const service = await openWarm();
    await redis.server.pause();
    const failures = await Promise.all(
      Array.from({ length: 20 }, (_, i) => failureOf(service.acquire(`${redis.key}:${i}`, { waitMs: 200 }))),
    );
    await redis.server.resume();
    const held = () => redis.eyes.client.exists(...failures.map((_, i) => `${redis.key}:${i}`));
    const waited = await elapsed(until(async () => (await held()) === 0));
    expect(waited).toBeLessThan(RECONNECT_MS + SLACK_MS);
  });

  it('a waiter survives a restart of the server and is served', async () => {
    const [first, second] = [await openWarm(), await openWarm()];
    const lock = await first.acquire(redis.key);
    const next = second.acquire(redis.key);
    await redis.eyes.untilQueued(redis.key, 1);
    await redis.server.restart();
    expect(await elapsed(next)).toBeLessThan(RECONNECT_MS + SLACK_MS);
    expect((await next).fencingToken).toBeGreaterThan(lock.fencingToken);
    await (await next).release();
  });

  /** One inside who never leaves, one in the local line, and one behind a lock of another service. */
  const occupy = async (service: LockService) => {
    const other = await openWarm();
    await other.acquire(`${redis.key}:other`);
    const held = await service.acquire(redis.key);
    const waiting = [service.acquire(redis.key), service.acquire(`${redis.key}:other`)].map((call) =>
      failureOf(call),
    );
    await redis.eyes.untilQueued(`${redis.key}:other`, 1);
    return { held, waiting };
  };

  it.each([...away, ['is there', () => Promise.resolve()] as const])(
    'close settles within 2 s with holders and waiters when the server %s',
    async (_name, leave) => {
      const service = redis.open({ commandTimeoutMs: 500 });
      const { held, waiting } = await occupy(service);
      await leave();
      expect(await elapsed(service.close())).toBeLessThan(2000);
      for (const failure of waiting) expect(await failure).toMatchObject({ code: 'LOCK_SHUTDOWN' });
      expect(held.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'shutdown' });
      expect(await failureOf(service.acquire(redis.key))).toMatchObject({ code: 'LOCK_SHUTDOWN' });
    },
    15_000,
  );

  it('close leaves no connection and the key free for the next owner', async () => {
    const service = redis.open({ commandTimeoutMs: 500 });
    await occupy(service);
    const before = ((await redis.eyes.client.client('LIST')) as string).trim().split('\n').length;
    await service.close();
    await until(
      async () =>
        ((await redis.eyes.client.client('LIST')) as string).trim().split('\n').length === before - 2,
    );
    expect(await redis.eyes.remains(redis.key)).toEqual([]);
    expect(await redis.eyes.queue(`${redis.key}:other`)).toEqual([]);
  });
});
