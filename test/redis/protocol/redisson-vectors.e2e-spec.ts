import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { until } from '#until';
import { closeServices, openService } from '../../support/lock-services.js';
import { ownRedis } from '../../support/own-redis.js';

// The bytes that Redisson reads and writes, and what no real Redisson can be made to do. Whoever waits for whom: test/interop.

const JAVA = 'b2b1a0d2-7c1f-4a8e-9d3a-000000000001:1';
const OURS = /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}:\d+$/;
const SHARED = { mode: 'shared' } as const;
const EXCLUSIVE = { mode: 'exclusive' } as const;
const END = 'end of test';

const redis = ownRedis('redisson');
let name: string;
let ears: Redis;
let heard: string[];
let startedAt: number;

beforeEach(() => {
  name = redis.key;
  heard = [];
  startedAt = performance.now();
  ears = new Redis(redis.url);
  ears.on('message', (_channel: string, message: string) => heard.push(message));
});
afterEach(() => ears.quit());

const fields = () => redis.eyes.client.hgetall(name);
const locked = (kind: string) => `redisson_${kind}:{${name}}`;

/** What is left of a lease of `expected` ms that began in this test, less the margin of clocks, which a downgrade takes off. */
async function expectLease(key: string, expected: number): Promise<void> {
  const left = await redis.eyes.client.pttl(key);
  expect(left).toBeLessThanOrEqual(expected);
  expect(left).toBeGreaterThanOrEqual(0.98 * expected - (performance.now() - startedAt));
}

/** All messages on the channel during `work`, and none that is still under way. */
async function toldDuring(channel: string, work: () => Promise<unknown>): Promise<readonly string[]> {
  await ears.subscribe(channel);
  await work();
  await redis.eyes.client.publish(channel, END);
  await until(() => heard.includes(END));
  return heard.splice(0).filter((message) => message !== END);
}

const untilHeardBy = async (count: number) => {
  const channel = locked('lock__channel');
  await until(async () => (await redis.eyes.client.pubsub('NUMSUB', channel))[1] === count);
};
const lockInJava = async (leaseMs = 30_000) => {
  await redis.eyes.client.hset(name, JAVA, '1');
  await redis.eyes.client.pexpire(name, leaseMs);
};
const unlockInJava = async () => {
  await redis.eyes.client.del(name);
  await redis.eyes.client.publish(locked('lock__channel'), '0');
};

describe('a lock of ours', () => {
  it('is exactly Redisson’s: one field uuid:number with count 1, the lease on the key, and one message when it is freed: 0', async () => {
    const told = await toldDuring(locked('lock__channel'), async () => {
      const lock = await redis.open().acquire(name, { leaseMs: 20_000 });
      const [[field, count] = [], ...others] = Object.entries(await fields());
      expect([count, others]).toEqual(['1', []]);
      expect(field).toMatch(OURS);
      await expectLease(name, 20_000);
      await lock.release();
      expect(await redis.eyes.client.exists(name)).toBe(0);
    });
    expect(told).toEqual(['0']);
  });

  it.each([
    ['plain', (odd: string) => `{${odd}}`],
    ['{acct}:7', (odd: string) => odd],
    ['a{b', (odd: string) => odd],
    ['x{}y', (odd: string) => odd],
  ])('has a channel by Redisson’s rule for braces: %s', async (kind, tagOf) => {
    const odd = `${kind}:${name}`;
    const told = await toldDuring(`redisson_lock__channel:${tagOf(odd)}`, async () => {
      await (await redis.open().acquire(odd)).release();
    });
    expect(told).toEqual(['0']);
  });

  it('that was given up while its answer was under way does not listen for Java any more', async () => {
    await lockInJava();
    const locks = redis.open();
    await locks.withLock(`${name}:warm`, () => undefined);
    const controller = new AbortController();
    const asked = locks.acquire(name, { signal: controller.signal });
    controller.abort(new Error('the client has left'));
    await expect(asked).rejects.toThrow('the client has left');
    await unlockInJava();
    await locks.withLock(name, () => undefined);
    await untilHeardBy(0);
  });
});

describe('a lock of Java', () => {
  it('is busy for us, and we say who holds it', async () => {
    await lockInJava();
    const locks = redis.open();
    expect(await locks.tryAcquire(name)).toBeNull();
    expect(await locks.inspect(name)).toMatchObject({ holders: [JAVA], pending: [] });
    expect(await fields()).toEqual({ [JAVA]: '1' });
  });

  it('is listened for also by a process that has only just started, and whose subscriptions take their time', async () => {
    const slow = new Redis(redis.url, { lazyConnect: true });
    slow.duplicate = (options) => {
      const client = new Redis(redis.url, options ?? {});
      const subscribe = client.subscribe.bind(client) as (...channels: string[]) => Promise<unknown>;
      return Object.assign(client, {
        subscribe: (...channels: string[]) => pause(100).then(() => subscribe(...channels)),
      });
    };
    await lockInJava();
    const acquired = openService(slow).acquire(name);
    await untilHeardBy(1);
    await unlockInJava();
    expect(await (await acquired).release()).toBe('released');
  });

  it('that never ends is waited for without an end', async () => {
    await lockInJava();
    await redis.eyes.client.persist(name);
    const locks = redis.open();
    expect(await locks.inspect(name)).toMatchObject({ remainingMs: Infinity });
    const acquired = locks.acquire(name, { waitMs: Infinity });
    await redis.eyes.untilQueued(name, 1);
    await untilHeardBy(1);
    await unlockInJava();
    await (await acquired).release();
  });
});

describe('a read-write lock', () => {
  const holdOf = (owner: string, hold = 1) => `{${name}}:${owner}:rwlock_timeout:${hold}`;
  const ownHold = async () => holdOf(Object.keys(await fields()).find((field) => OURS.test(field))!);
  const readInJava = async (count: number, aliveHold: number) => {
    await redis.eyes.client.hset(name, { mode: 'read', [JAVA]: count });
    await redis.eyes.client.pexpire(name, 30_000);
    await redis.eyes.client.set(holdOf(JAVA, aliveHold), 1, 'PX', 30_000);
  };

  it('that ours read is exactly Redisson’s: a mode, a field and a timeout key each, and one message by the last: 0', async () => {
    const told = await toldDuring(locked('rwlock'), async () => {
      const locks = redis.open();
      const lock = await locks.acquire(name, { ...SHARED, leaseMs: 20_000 });
      const { mode, ...readers } = await fields();
      expect([mode, ...Object.values(readers)]).toEqual(['read', '1']);
      expect(await redis.eyes.client.get(await ownHold())).toBe('1');
      await expectLease(await ownHold(), 20_000);
      await expectLease(name, 20_000);
      const other = await redis.open().acquire(name, SHARED);
      await lock.release();
      expect(heard).toEqual([]);
      await other.release();
      expect(await redis.eyes.client.keys(`*{${name}}*rwlock_timeout*`)).toEqual([]);
    });
    expect(told).toEqual(['0']);
  });

  it('that ours writes is exactly Redisson’s, becomes its reader when it steps down, and wakes all when it leaves: 1', async () => {
    const told = await toldDuring(locked('rwlock'), async () => {
      const lock = await redis.open().acquire(name, { ...EXCLUSIVE, leaseMs: 20_000 });
      const { mode, ...writers } = await fields();
      expect(mode).toBe('write');
      expect(Object.entries(writers)).toEqual([[expect.stringMatching(/:\d+:write$/), '1']]);
      await expectLease(name, 20_000);
      await lock.release();
    });
    expect(told).toEqual(['1']);
    const lock = await redis.open().acquire(name, { ...EXCLUSIVE, leaseMs: 20_000 });
    await lock.downgrade();
    expect(await fields()).toMatchObject({ mode: 'read' });
    await expectLease(await ownHold(), 20_000);
    await lock.release();
    expect(await redis.eyes.client.exists(name)).toBe(0);
  });

  it('is kept for a reader of ours by its own watchdog, not by that of a Java reader', async () => {
    const lock = await redis.open().acquire(name, { ...SHARED, leaseMs: 400 });
    const own = await ownHold();
    await readInJava(1, 1);
    await until(async () => (await redis.eyes.client.exists(own)) === 0);
    expect(await lock.release()).toBe('lost');
  });

  it('keeps a reader of Java of whose holds one is alive, and its lease when a reader of ours leaves', async () => {
    await readInJava(2, 2);
    const locks = redis.open();
    expect(await locks.tryAcquire(name, EXCLUSIVE)).toBeNull();
    const lock = await locks.acquire(name, { ...SHARED, leaseMs: 60_000 });
    await lock.release();
    expect(await fields()).toEqual({ mode: 'read', [JAVA]: '2' });
    await expectLease(name, 30_000);
  });

  it('is taken by force from readers of both sides', async () => {
    await readInJava(1, 1);
    const locks = redis.open();
    const lock = await locks.acquire(name, SHARED);
    const own = await ownHold();
    const told = await toldDuring(locked('rwlock'), () => locks.forceRelease(name));
    expect(told).toContain('0');
    expect(await lock.release()).toBe('lost');
    expect(await redis.eyes.client.exists(name, own)).toBe(0);
  });
});

describe('a lock that is taken by force from the one holder that was seen', () => {
  const seen = async () => (await redis.open().inspect(name))?.holders ?? [];

  it('is free, also where a thread of Java writes and reads under one lock', async () => {
    await redis.eyes.client.hset(name, { mode: 'write', [`${JAVA}:write`]: '1', [JAVA]: '1' });
    await redis.eyes.client.pexpire(name, 30_000);
    await redis.eyes.client.set(`{${name}}:${JAVA}:rwlock_timeout:1`, '1', 'PX', 30_000);
    const locks = redis.open();
    expect(await locks.forceRelease(name, { owner: await seen() })).toBe('released');
    expect(await redis.eyes.client.exists(name, `{${name}}:${JAVA}:rwlock_timeout:1`)).toBe(0);
    await (await locks.acquire(name, SHARED)).release();
  });

  it('stays with readers of Java that came since', async () => {
    const locks = redis.open();
    const lock = await locks.acquire(name, SHARED);
    const owners = await seen();
    await redis.eyes.client.hset(name, JAVA, '1');
    await redis.eyes.client.set(`{${name}}:${JAVA}:rwlock_timeout:1`, '1', 'PX', 30_000);
    expect(await locks.forceRelease(name, { owner: owners })).toBe('released');
    expect(await lock.release()).toBe('lost');
    expect(await fields()).toEqual({ mode: 'read', [JAVA]: '1' });
    expect(await locks.forceRelease(name, { owner: owners })).toBe('held by another');
    // Names of fields that are no owners.
    expect(await locks.forceRelease(name, { owner: ['mode', `${JAVA}:write`, '\ud800'] })).toBe(
      'held by another',
    );
    expect(await locks.forceRelease(name, { owner: JAVA })).toBe('released');
    expect(await redis.eyes.client.exists(name)).toBe(0);
  });

  it('gives back the permit of Java that was seen, and leaves it the others', async () => {
    const until30 = Date.now() + 30_000;
    const ids = [Buffer.from('00ff0a2358'.repeat(3), 'hex'), Buffer.from('01ff0a2358'.repeat(3), 'hex')];
    await redis.eyes.client.set(name, '1');
    for (const id of ids) await redis.eyes.client.zadd(`{${name}}:timeout`, until30, id);
    const locks = redis.open();
    const holders = [...(await seen())].sort();
    expect(holders).toEqual(ids.map((id) => `Redisson permit ${id.toString('hex')}`));
    expect(await locks.forceRelease(name, { owner: holders.slice(1) })).toBe('released');
    expect(await redis.eyes.client.get(name)).toBe('2');
    expect(await locks.forceRelease(name, { owner: holders.slice(1) })).toBe('held by another');
    expect(await seen()).toEqual(holders.slice(0, 1));
  });
});

describe('permits', () => {
  const left = () => redis.eyes.client.get(name);
  const deadlines = () => redis.eyes.client.zrange(`{${name}}:timeout`, '0', '-1', 'WITHSCORES');

  it('of ours are Redisson’s: a counter of what is left, and a deadline for each', async () => {
    const before = Date.now();
    const lock = await redis.open().acquire(name, { permits: 5, weight: 2, leaseMs: 20_000 });
    expect(await left()).toBe('3');
    const [one, until1, two, until2] = await deadlines();
    expect([two, until2]).toEqual([`${one}#2`, until1]);
    expect(Number(until1)).toBeGreaterThanOrEqual(before + 20_000 - 50);
    expect(Number(until1)).toBeLessThan(before + 25_000);
    await lock.release();
    expect([await left(), await deadlines()]).toEqual([null, []]);
  });

  it('of ours are told by Redisson’s channel when they come back: how many are left then', async () => {
    const locks = redis.open();
    const one = await locks.acquire(name, { permits: 3 });
    const two = await locks.acquire(name, { permits: 3, weight: 2 });
    expect(await toldDuring(locked('sc'), () => two.release())).toEqual(['2']);
    // Nothing is left to count, and whoever comes finds a number again.
    expect(await toldDuring(locked('sc'), () => one.release())).toEqual(['1']);
  });

  it('come back to a counter of Java, which stays when the last of ours is gone', async () => {
    await redis.eyes.client.set(name, 3);
    const lock = await redis.open().acquire(name, { permits: 3, weight: 3 });
    expect(await left()).toBe('0');
    await lock.release();
    expect([await left(), await redis.eyes.client.pttl(name)]).toEqual(['3', -1]);
  });
});

/** The first waiter of Redisson's fair lock, as its scripts leave it: a list, a time, and a channel of its own. */
describe('a waiter for a fair lock of Java', () => {
  let channel: string;
  beforeEach(async () => {
    const waiter = `${randomUUID()}:7`;
    channel = `${locked('lock__channel')}:${waiter}`;
    await redis.eyes.client.rpush(`redisson_lock_queue:{${name}}`, waiter);
    await redis.eyes.client.zadd(`redisson_lock_timeout:{${name}}`, Date.now() + 300_000, waiter);
  });

  it('is told on its own channel that a lock of ours is free', async () => {
    const lock = await redis.open().acquire(name);
    expect(await toldDuring(channel, () => lock.release())).toEqual(['0']);
  });

  it('is offered the lock alone, although callers of ours ask for it all the time', async () => {
    const services = [redis.open(), redis.open()];
    await ears.subscribe(channel);
    let isDone = false;
    const crowd = services.map(async (locks) => {
      while (!isDone) await locks.withLock(name, { waitMs: Infinity }, () => pause(1));
    });
    await until(
      async () => (await redis.eyes.client.hget(`nest_lock_meta:{${name}}`, 'foreign_turn_until')) !== null,
    );
    isDone = true;
    await Promise.all(crowd);
    expect(heard).toContain('0');
  });

  it('that does not listen any more delays nobody', async () => {
    const locks = redis.open();
    for (let i = 0; i < 5; i++) await locks.withLock(name, () => undefined);
    await closeServices();
    expect(await redis.eyes.client.exists(`nest_lock_meta:{${name}}`)).toBe(0);
  });
});

describe('tokens that are shared with Java’s fenced lock', () => {
  const counter = () => `redisson_lock_token:{${redis.key}}`;

  /** With each acquire Redisson's fenced lock counts one up. */
  const takeInJava = () => redis.eyes.client.incr(counter());
  const open = () => redis.open({ sharedTokens: true });
  const growing = (tokens: readonly number[]) => [...new Set(tokens)].sort((a, b) => a - b);

  it('grow with each grant, whichever side it is of', async () => {
    const [one, two] = [open(), open()];
    const tokens: number[] = [];
    for (let turn = 0; turn < 5; turn++) {
      for (const service of [one, two]) {
        tokens.push(await takeInJava());
        tokens.push(await service.withLock(redis.key, ({ fencingToken }) => fencingToken));
      }
    }
    expect(tokens).toEqual(growing(tokens));
  });

  it('grow over callers of one process that passed the lock on, and over several keys at once', async () => {
    const service = open();
    const first = await service.acquire(redis.key);
    const calls = Array.from({ length: 50 }, () =>
      service.withLock(redis.key, ({ fencingToken }) => fencingToken),
    );
    await first.release();
    const tokens = [first.fencingToken, ...(await Promise.all(calls)), await takeInJava()];
    const both = await service.acquire([redis.key, `${redis.key}:other`]);
    tokens.push(both.tokenOf(redis.key));
    await both.release();
    tokens.push(await takeInJava());
    expect(tokens).toEqual(growing(tokens));
  });

  it('grow over a hand-off to a process that waits', async () => {
    const [one, two] = [open(), open()];
    const held = await one.acquire(redis.key);
    const next = two.acquire(redis.key, { fair: true });
    await redis.eyes.untilQueued(redis.key, 1);
    await held.release();
    const tokens = [held.fencingToken, (await next).fencingToken];
    await (await next).release();
    tokens.push(await takeInJava());
    expect(tokens).toEqual(growing(tokens));
  });

  it('go on from those that Java has counted up to, also ahead of the clock', async () => {
    const ahead = 1000 * (Date.now() + 86_400_000);
    await redis.eyes.client.set(counter(), ahead);
    expect(await open().withLock(redis.key, ({ fencingToken }) => fencingToken)).toBe(ahead + 1);
  });

  /** Many callers of another process than the holder's, each of which does `work`. They reserve a block of tokens. */
  const contend = async (work: () => Promise<unknown> = async () => undefined) => {
    const [one, two] = [open(), open()];
    const holder = await one.acquire(redis.key);
    const calls = Array.from({ length: 5 }, () =>
      two.withLock(redis.key, async ({ fencingToken }) => {
        await work();
        return fencingToken;
      }),
    );
    await redis.eyes.untilQueued(redis.key, 1);
    await holder.release();
    const tokens = await Promise.all(calls);
    await closeServices();
    return tokens;
  };

  it('go back to the counter that Java shares as far as they were not used, after each of many contended grants', async () => {
    for (let i = 0; i < 5; i += 1) {
      const tokens = await contend();
      expect(Number(await redis.eyes.client.get(counter()))).toBe(Math.max(...tokens));
    }
  });

  it('do not go back where Java has taken the next one meanwhile', async () => {
    const taken: number[] = [];
    const tokens = await contend(async () => taken.push(await takeInJava()));
    const largest = Math.max(...taken);
    expect(largest).toBeGreaterThan(Math.max(...tokens));
    expect(Number(await redis.eyes.client.get(counter()))).toBe(largest);
    expect(await open().withLock(redis.key, ({ fencingToken }) => fencingToken)).toBeGreaterThan(largest);
  });

  it('are left alone without the option', async () => {
    await takeInJava();
    await redis.open().withLock(redis.key, () => undefined);
    expect(await redis.eyes.client.get(counter())).toBe('1');
  });
});
