import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Redis } from 'ioredis';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { LockWaitTimeoutError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { LockServiceOptions } from '../../../libs/distributed-lock/src/lock/request/lock-options.js';
import { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import { channelOf, RedissonLock } from '../../support/redisson-lock.js';
import { until } from '#until';

jest.setTimeout(30_000);

let url: string;
let name: string;
let redis: Redis;
let ears: Redis;
/** All that was published on the channel of the lock. */
let heard: string[];
let closers: (() => Promise<unknown>)[];

beforeAll(() => {
  url = process.env['REDIS_URL'] as string;
});

beforeEach(async () => {
  name = `order:${randomUUID()}`;
  heard = [];
  redis = new Redis(url);
  ears = new Redis(url);
  closers = [() => redis.quit(), () => ears.quit()];
  ears.on('message', (_channel: string, message: string) => heard.push(message));
});

afterEach(async () => {
  await Promise.all(closers.map((close) => close()));
});

function java(threadId = 1, clientId?: string, lockName = name): RedissonLock {
  const lock = new RedissonLock(url, lockName, threadId, clientId);
  closers.push(() => lock.close());
  return lock;
}

function node(options: Partial<LockServiceOptions> = {}): LockService {
  const service = new LockService({ shutdownGraceMs: 0, store: redisStore(url), ...options });
  service.open();
  closers.push(() => service.close());
  return service;
}

const state = () => redis.hgetall(name);
const listen = (lockName = name) => ears.subscribe(channelOf(lockName));

/** All that was heard on the channel until now, and nothing that is still under way. */
async function heardSoFar(lockName = name): Promise<string[]> {
  await redis.publish(channelOf(lockName), 'end of test');
  await until(() => heard.includes('end of test'));
  return heard.slice(0, -1);
}

describe('the reference, step by step', () => {
  it('does what worked example A says', async () => {
    const u1 = java(1, '11111111-2222-3333-4444-555555555555');
    const v7 = java(7, '99999999-8888-7777-6666-555555555555');
    const [first, last] = ['0123456789abcdef0123456789abcdef', 'f'.repeat(32)];
    await listen();

    expect(await u1.tryLock()).toBeNull();
    expect(await state()).toEqual({ '11111111-2222-3333-4444-555555555555:1': '1' });
    expect(await u1.tryLock()).toBeNull();
    expect(await state()).toEqual({ '11111111-2222-3333-4444-555555555555:1': '2' });
    expect(await v7.tryLock()).toBeGreaterThan(25_000);
    expect(await u1.unlock(first)).toBe(0);
    expect(await redis.get(`redisson_unlock_latch:{${name}}:${first}`)).toBe('0');
    expect(await redis.pttl(`redisson_unlock_latch:{${name}}:${first}`)).toBeGreaterThan(10_000);
    expect(await u1.unlock(first)).toBe(0);
    expect(await state()).toEqual({ [u1.owner]: '1' });
    expect(await v7.unlock()).toBeNull();
    expect(heard).toEqual([]);
    expect(await u1.unlock(last)).toBe(1);
    expect(await redis.exists(name)).toBe(0);
    expect(await redis.get(`redisson_unlock_latch:{${name}}:${last}`)).toBe('1');
    expect(await u1.forceUnlock()).toBe(0);
    expect(await heardSoFar()).toEqual(['0']);
  });

  it('does what worked example B says: a lease that ends is not announced', async () => {
    const lock = java();
    await listen();
    await lock.tryLock(100);
    await until(async () => (await redis.exists(name)) === 0);
    expect(await heardSoFar()).toEqual([]);
  });
});

describe('a lock of ours', () => {
  it('is exactly Redisson’s: one field uuid:number with count 1, and the lease on the key', async () => {
    const lock = await node().acquire(name);
    const [[field, count] = [], ...others] = Object.entries(await state());
    expect(others).toEqual([]);
    expect(field).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}:\d+$/);
    expect(count).toBe('1');
    expect(await redis.type(name)).toBe('hash');
    const pttl = await redis.pttl(name);
    expect(pttl).toBeGreaterThan(25_000);
    expect(pttl).toBeLessThanOrEqual(30_000);
    await lock.release();
    expect(await redis.exists(name)).toBe(0);
  });

  it('that was given up while its answer was under way does not listen for Java any more', async () => {
    const stranger = java();
    await stranger.tryLock();
    const locks = node();
    await locks.withLock(`${name}:warm`, () => undefined);
    const controller = new AbortController();
    const asked = locks.acquire(name, { signal: controller.signal });
    controller.abort(new Error('the client has left'));
    await expect(asked).rejects.toThrow('the client has left');
    await stranger.unlock();
    await locks.withLock(name, () => undefined);
    const channel = `redisson_lock__channel:{${name}}`;
    await until(async () => ((await redis.pubsub('NUMSUB', channel)) as [string, number])[1] === 0);
  });

  it('is busy for Java, which is told the remaining time', async () => {
    const lock = await node().acquire(name, { leaseMs: 20_000 });
    const remaining = await java().tryLock();
    expect(remaining).toBeGreaterThan(15_000);
    expect(remaining).toBeLessThanOrEqual(20_000);
    await lock.release();
    expect(await java().tryLock()).toBeNull();
  });

  it('cannot be unlocked by Java, unless by force', async () => {
    const lock = await node().acquire(name);
    const stranger = java();
    expect(await stranger.unlock()).toBeNull();
    lock.assertHeld();
    expect(await stranger.forceUnlock()).toBe(1);
    expect(await lock.release()).toBe('lost');
  });

  it('is announced on Redisson’s channel when it is freed: 0, once', async () => {
    await listen();
    const lock = await node().acquire(name);
    await lock.release();
    expect(await heardSoFar()).toEqual(['0']);
  });

  it('wakes a Java waiter by its release', async () => {
    const lock = await node().acquire(name);
    const waiter = java();
    const acquired = waiter.lock();
    await until(async () => (await redis.pubsub('NUMSUB', waiter.channel))[1] === 1);
    await lock.release();
    await acquired;
    expect(await state()).toEqual({ [waiter.owner]: '1' });
    await waiter.unlock();
  });

  it.each(['plain', '{acct}:7', 'a{b', 'x{}y'])(
    'has a channel by Redisson’s rule for braces: %s',
    async (kind) => {
      const odd = `${kind}:${name}`;
      await listen(odd);
      const lock = await node().acquire(odd);
      await lock.release();
      expect(await heardSoFar(odd)).toEqual(['0']);
    },
  );

  it('has a prefix as part of its name, so that Java finds it there', async () => {
    const lock = await node({ keyPrefix: 'shop:' }).acquire(name);
    expect(await java(1, undefined, `shop:${name}`).tryLock()).toBeGreaterThan(0);
    await lock.release();
  });
});

describe('a lock of Java', () => {
  it('is busy for us, and we say who holds it', async () => {
    const stranger = java();
    await stranger.tryLock();
    const locks = node();
    expect(await locks.tryAcquire(name)).toBeNull();
    await expect(locks.acquire(name, { waitMs: 50 })).rejects.toBeInstanceOf(LockWaitTimeoutError);
    expect(await locks.inspect(name)).toMatchObject({ holders: [stranger.owner], pending: [] });
    expect(await state()).toEqual({ [stranger.owner]: '1' });
  });

  it('is given to our waiter by the release of Java, long before its lease or the next recheck', async () => {
    const [stranger, locks] = [java(), node()];
    const waitedMs: number[] = [];
    for (let i = 0; i < 3; i++) {
      await stranger.tryLock();
      const acquired = locks.acquire(name);
      await until(async () => (await redis.pubsub('NUMSUB', stranger.channel))[1] === 1);
      const releasedAt = performance.now();
      await stranger.unlock();
      const lock = await acquired;
      waitedMs.push(performance.now() - releasedAt);
      await lock.release();
      await until(async () => (await redis.pubsub('NUMSUB', stranger.channel))[1] === 0);
    }
    // The next look would come after nearly a second; a busy machine may be slow once.
    expect(Math.min(...waitedMs)).toBeLessThan(500);
  });

  it('is listened for also by a process that has only just started, and whose subscriptions take their time', async () => {
    const slow = new Redis(url, { lazyConnect: true });
    slow.duplicate = (options) => {
      const client = new Redis(url, options ?? {});
      const subscribe = client.subscribe.bind(client) as (...channels: string[]) => Promise<unknown>;
      return Object.assign(client, {
        subscribe: (...channels: string[]) => pause(100).then(() => subscribe(...channels)),
      });
    };
    const stranger = java();
    await stranger.tryLock();
    const acquired = node({ store: redisStore(slow) }).acquire(name);
    await until(async () => (await redis.pubsub('NUMSUB', stranger.channel))[1] === 1);
    await stranger.unlock();
    expect(await (await acquired).release()).toBe('released');
  });

  it('is not taken from Java while it holds it twice', async () => {
    const stranger = java();
    await stranger.tryLock();
    await stranger.tryLock();
    await stranger.unlock();
    expect(await node().tryAcquire(name)).toBeNull();
    await stranger.unlock();
    const lock = await node().tryAcquire(name);
    expect(lock).not.toBeNull();
    await lock?.release();
  });

  it('ends with its lease, and our waiter is next', async () => {
    const stranger = java();
    await stranger.tryLock(200);
    const lock = await node().acquire(name, { waitMs: 10_000 });
    expect(await lock.release()).toBe('released');
  });

  it('that never ends is waited for without an end', async () => {
    const stranger = java();
    await stranger.tryLock();
    await redis.persist(name);
    const locks = node();
    expect(await locks.inspect(name)).toMatchObject({ remainingMs: Infinity });
    const acquired = locks.acquire(name, { waitMs: Infinity });
    await until(async () => (await locks.inspect(name))?.pending.length === 1);
    await stranger.unlock();
    await (await acquired).release();
  });

  it('may be taken by force, like ours', async () => {
    const stranger = java();
    await stranger.tryLock();
    const locks = node();
    await listen();
    expect(await locks.forceRelease(name)).toBe('released');
    expect(await stranger.unlock()).toBeNull();
    expect(await heardSoFar()).toEqual(['0']);
  });
});

describe('Java and we, side by side', () => {
  it('exclude each other under load, and nobody is passed over', async () => {
    let inside = 0;
    let most = 0;
    const turns = new Map<string, number>();
    const work = async (who: string) => {
      most = Math.max(most, ++inside);
      await pause(1);
      turns.set(who, (turns.get(who) ?? 0) + 1);
      inside -= 1;
    };
    const threads = [1, 2].map(async (threadId) => {
      const lock = java(threadId);
      for (let i = 0; i < 3; i++) {
        await lock.lock();
        await work(`java ${threadId}`);
        await lock.unlock();
      }
    });
    const isJavaDone = { yes: false };
    const callers = [node(), node()].map(async (locks, i) => {
      while (!isJavaDone.yes) await locks.withLock(name, { waitMs: Infinity }, () => work(`node ${i}`));
    });
    await Promise.all(threads);
    isJavaDone.yes = true;
    await Promise.all(callers);
    expect(most).toBe(1);
    // How the other turns are shared depends on who is faster, not on the lock.
    expect([...turns.keys()].sort()).toEqual(['java 1', 'java 2', 'node 0', 'node 1']);
    expect([turns.get('java 1'), turns.get('java 2')]).toEqual([3, 3]);
  });

  it('a Java waiter gets its turn within about a second while our callers hammer the key', async () => {
    const services = [node(), node()];
    const isDone = { yes: false };
    const callers = services.flatMap((locks) =>
      Array.from({ length: 5 }, async () => {
        while (!isDone.yes) {
          await locks.withLock(name, { waitMs: Infinity }, () => pause(2));
        }
      }),
    );
    await until(async () => ((await services[0]?.inspect(name))?.pending.length ?? 0) > 0);
    const waiter = java();
    const startedAt = performance.now();
    await waiter.lock();
    const waitedMs = performance.now() - startedAt;
    await waiter.unlock();
    isDone.yes = true;
    await Promise.all(callers);
    expect(waitedMs).toBeLessThan(3000);
  });
});

/** The first waiter of Redisson's fair lock, as its scripts leave it: a list, a time, and a channel of its own. */
describe('a waiter for a fair lock of Java', () => {
  let waiter: string;
  let channel: string;
  beforeEach(async () => {
    waiter = `${randomUUID()}:7`;
    channel = `${channelOf(name)}:${waiter}`;
    await redis.rpush(`redisson_lock_queue:{${name}}`, waiter);
    await redis.zadd(`redisson_lock_timeout:{${name}}`, Date.now() + 300_000, waiter);
  });

  it('is told on its own channel that a lock of ours is free', async () => {
    const lock = await node().acquire(name);
    await ears.subscribe(channel);
    await lock.release();
    await until(() => heard.length > 0);
    expect(heard).toEqual(['0']);
  });

  it('is offered the lock alone, although callers of ours ask for it all the time', async () => {
    const locks = node();
    await ears.subscribe(channel);
    const isOffered = async () => {
      await locks.withLock(name, { waitMs: Infinity }, () => pause(1));
      return (await redis.hget(`nest_lock_meta:{${name}}`, 'foreign_turn_until')) !== null;
    };
    const others = node();
    const controller = new AbortController();
    const crowd = (async () => {
      while (!controller.signal.aborted) await others.withLock(name, { waitMs: Infinity }, () => pause(1));
    })();
    await until(isOffered);
    controller.abort();
    await crowd;
    expect(heard).toContain('0');
  });

  it('that does not listen any more delays nobody', async () => {
    const locks = node();
    for (let i = 0; i < 5; i++) await locks.withLock(name, () => undefined);
    expect(await redis.exists(`nest_lock_meta:{${name}}`)).toBe(0);
  });
});
