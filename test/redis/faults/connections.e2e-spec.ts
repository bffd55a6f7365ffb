import { describe, expect, it, jest } from '@jest/globals';
import { createRequire } from 'node:module';
import { Redis } from 'ioredis';
import type { Clock, Lock, LockService } from 'nestjs-distributed-lock';
import { systemClock } from '../../../libs/distributed-lock/src/common/clock.js';
import { LIBRARIES } from '../../support/redis-library.js';
import { ownRedis } from '../../support/own-redis.js';
import { eventsOf, typesOf } from '../../support/events.js';
import { elapsed, openService } from '../../support/lock-services.js';
import { until } from '#until';

/** The real one, that jumps ahead when a timer of a given length has fired: as if what followed had taken so long. */
class StallingClock implements Clock {
  stallMs = 0;
  onOver = (): void => undefined;

  constructor(private readonly timerMs: number) {}

  now(): number {
    return systemClock.now() + this.stallMs;
  }

  after(ms: number, task: () => void): () => void {
    return systemClock.after(ms, () => {
      task();
      if (ms === this.timerMs) this.onOver();
    });
  }

  interval(ms: number): ReturnType<Clock['interval']> {
    return systemClock.interval(ms);
  }
}

const RECHECK_MS = 1000;
const SLACK_MS = 900;
/** Longer than the initial lease of a grant. */
const BLOCKED_MS = 1250;

/** The event loop, without work for the processor. */
function block(ms = BLOCKED_MS): string {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  return 'done';
}

describe.each(LIBRARIES)('what an operator does to connections and scripts, by %s', (library) => {
  const redis = ownRedis('cut', { library });

  /** One service holds the key, another waits for it. */
  const holdAndAsk = async <T>(ask: (waiting: LockService) => Promise<T>) => {
    const [holder, waiting] = [redis.open(), redis.open()];
    const lock = await holder.acquire(redis.key);
    const next = ask(waiting);
    await redis.eyes.untilQueued(redis.key, 1);
    await redis.eyes.untilListening(2);
    return { holder, waiting, lock, next };
  };
  const holdAndWait = () => holdAndAsk((waiting) => waiting.acquire(redis.key));

  it('a waiter that is granted by a notification and blocks the event loop for longer than its first lease keeps its lock', async () => {
    const { waiting, lock, next } = await holdAndWait();
    const blocked = next.then(async (granted) => {
      block();
      return { granted, leaseMs: await redis.eyes.client.pttl(redis.key) };
    });
    await lock.release();
    const { granted, leaseMs } = await blocked;
    expect(leaseMs).toBeGreaterThan(waiting.options.watchdogTimeoutMs / 2);
    expect(await granted.release()).toBe('released');
  });

  it('work that blocks the event loop for longer than the first lease of its grant, and then ends, has not lost its lock', async () => {
    const { waiting, lock, next } = await holdAndAsk((service) => service.withLock(redis.key, () => block()));
    const events = eventsOf(waiting);
    await lock.release();
    expect(await next).toBe('done');
    expect(typesOf(events)).toEqual(['acquired', 'released']);
  });

  it('a long turn between a deadline and what follows from it costs the connection nothing', async () => {
    const commandTimeoutMs = 1000;
    const clock = new StallingClock(commandTimeoutMs);
    const service = redis.open({ commandTimeoutMs, clock });
    await service.withLock(redis.key, () => undefined);
    const before = await redis.eyes.connectionsReceived();
    const asked: Promise<Lock>[] = [];
    clock.onOver = () => {
      clock.onOver = () => undefined;
      asked.push(service.acquire(redis.key));
      clock.stallMs += 1.5 * commandTimeoutMs;
    };
    await until(() => asked.length > 0);
    expect(await (await asked[0])?.release()).toBe('released');
    expect(await redis.eyes.connectionsReceived()).toBe(before);
  });

  it('10 000 calls in one turn are all served, however long the answers take together', async () => {
    const service = redis.open();
    await service.withLock(redis.key, () => undefined);
    const calls = Array.from({ length: 10_000 }, (_, i) =>
      service.withLock(`${redis.key}:${i}`, { waitMs: 60_000 }, () => i),
    );
    expect(await Promise.all(calls)).toHaveLength(10_000);
  }, 90_000);

  it('a connection that breaks before it has told the time does not take the next one with it', async () => {
    redis.proxy.onLink = (link) => link.replies.pass(100);
    const service = openService(redis.targetOf(redis.proxy.url), { commandTimeoutMs: 1000 });
    const measuring = () => redis.proxy.all.filter((link) => link.has('time'));
    await until(() => measuring().length === 1);
    redis.proxy.onLink = () => undefined;
    const [first] = measuring();
    first?.reset();
    const lock = await service.acquire(redis.key);
    const [, second] = measuring();
    const startedAt = performance.now();
    await until(() => performance.now() - startedAt > 1500);
    expect(second?.isOpen).toBe(true);
    expect(measuring()).toHaveLength(2);
    expect(await lock.release()).toBe('released');
  });

  it('a subscriber that was killed is subscribed again', async () => {
    const { lock, next } = await holdAndWait();
    await redis.eyes.client.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await redis.eyes.untilListening(2);
    await lock.release();
    expect(await elapsed(next)).toBeLessThan(SLACK_MS);
    await (await next).release();
  });

  it('a holder whose subscriber was killed renews at once, and finds that its lock was taken meanwhile', async () => {
    const holder = redis.open();
    await redis.eyes.untilListening(1);
    const locks = [await holder.acquire(redis.key), await holder.acquire(`${redis.key}:too`)];
    const signals = locks.map(({ signal }) => signal);
    const kept = await holder.acquire(`${redis.key}:kept`);
    // Between the end of its subscription and the next one, as one step.
    await redis.eyes.client
      .multi()
      .call('CLIENT', 'KILL', 'TYPE', 'pubsub')
      .del(...locks.map(({ key }) => key))
      .exec();
    await until(() => signals.every(({ aborted }) => aborted), SLACK_MS);
    for (const { reason } of signals) expect(reason).toMatchObject({ code: 'LOCK_LOST', reason: 'taken' });
    kept.assertHeld();
    expect(await kept.release()).toBe('released');
  });

  it('a holder and a waiter whose connections are all killed keep the lock and the place', async () => {
    const { holder, lock, next } = await holdAndWait();
    const events = eventsOf(holder);
    const place = await redis.eyes.queue(redis.key);
    await redis.eyes.client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await redis.eyes.client.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await redis.eyes.untilListening(2);
    expect(lock.validForMs).toBeGreaterThan(0);
    expect(await redis.eyes.queue(redis.key)).toEqual(place);
    await lock.release();
    expect(await elapsed(next)).toBeLessThan(RECHECK_MS + SLACK_MS);
    expect((await next).fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(typesOf(events).filter((type) => type !== 'contended')).toEqual(['released']);
    await (await next).release();
  });

  it('a flush of all scripts changes nothing for those who hold and those who wait', async () => {
    const { lock, next } = await holdAndWait();
    await redis.eyes.client.script('FLUSH');
    expect(await lock.release()).toBe('released');
    expect(await elapsed(next)).toBeLessThan(SLACK_MS);
    await redis.eyes.client.script('FLUSH');
    expect(await (await next).release()).toBe('released');
    expect(await redis.eyes.remains(redis.key)).toEqual([]);
  });

  it('a client that gives numbers as text makes no difference', async () => {
    const target = new Redis(redis.url, { lazyConnect: true, stringNumbers: true });
    const lock = await openService(target).acquire(redis.key);
    expect(lock.fencingToken).toEqual(expect.any(Number));
    expect(await lock.release()).toBe('released');
  });

  it('a client of another copy of ioredis is given commands of its own copy alone', async () => {
    let copy = {} as typeof import('ioredis');
    jest.isolateModules(() => (copy = createRequire(import.meta.url)('ioredis') as typeof copy));
    const target = new copy.Redis(redis.url, { lazyConnect: true });
    expect(target).not.toBeInstanceOf(Redis);
    const send = jest.spyOn(copy.Redis.prototype, 'sendCommand');
    const lock = await openService(target).acquire(redis.key);
    expect(await lock.release()).toBe('released');
    const sent = send.mock.calls.map(([command]) => command);
    expect(sent.map(({ name }) => name)).toContain('evalsha');
    expect(sent.filter((command) => !(command instanceof copy.Command))).toEqual([]);
  });

  it('the client of the application is neither used nor closed', async () => {
    const unconnected = new Redis(redis.url, { lazyConnect: true });
    const service = openService(unconnected);
    await service.withLock(redis.key, () => undefined);
    expect(unconnected.status).toBe('wait');
    const connected = new Redis(redis.url);
    const other = openService(connected);
    await other.withLock(redis.key, () => undefined);
    await Promise.all([service.close(), other.close()]);
    expect(unconnected.status).toBe('wait');
    expect(await connected.set(`${redis.key}:mine`, 'still works')).toBe('OK');
    connected.disconnect();
  });
});

// node-redis writes a command after the turn that blocks, when its deadline may be over.
describe('a command by ioredis', () => {
  const redis = ownRedis('blocked');

  it('an event loop that was blocked for longer than a command may take costs neither the call nor the connection', async () => {
    const service = redis.open({ commandTimeoutMs: 300 });
    await service.withLock(redis.key, () => undefined);
    const before = await redis.eyes.connectionsReceived();
    const asked = service.acquire(redis.key, { waitMs: 0 });
    block(500);
    expect(await (await asked).release()).toBe('released');
    expect(await redis.eyes.connectionsReceived()).toBe(before);
  });
});
