import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { readWriteChannelOf, RedissonReadWriteLock } from '../../support/redisson-read-write-lock.js';
import { until } from '#until';
import { RedissonStage } from './redisson-stage.js';

jest.setTimeout(30_000);

/** Long before the next look of one of ours, which comes within a second. */
const AT_ONCE_MS = 500;
const SHARED = { mode: 'shared' } as const;
const EXCLUSIVE = { mode: 'exclusive' } as const;

let stage: RedissonStage;
let name: string;

beforeEach(() => {
  stage = new RedissonStage(process.env['REDIS_URL'] as string, readWriteChannelOf);
  name = stage.name;
});
afterEach(() => stage.close());

const java = (threadId = 1, clientId?: string) =>
  stage.add(new RedissonReadWriteLock(stage.url, name, threadId, clientId));
const state = () => stage.redis.hgetall(name);
const pttl = (key = name) => stage.redis.pttl(key);
const ourReader = async () => {
  const fields = Object.keys(await state()).filter((field) => /^.{14}8.*:\d+$/.test(field));
  return fields.map((owner) => `{${name}}:${owner}:rwlock_timeout:1`)[0]!;
};

/** Within `ms` below `expected`: what is left of a lease that began a moment ago. */
function expectAbout(actual: number | null, expected: number, ms = 5000): void {
  expect(actual).toBeLessThanOrEqual(expected);
  expect(actual).toBeGreaterThan(expected - ms);
}

/** The fastest of three: a busy machine may be slow once. */
async function fastest(attempt: () => Promise<number>): Promise<number> {
  return Math.min(await attempt(), await attempt(), await attempt());
}

describe('the reference of the read-write lock, step by step', () => {
  it('does what worked example 1 says', async () => {
    const a = java(1, '11111111-2222-3333-4444-555555555555');
    const b = java(7, '99999999-8888-7777-6666-555555555555');
    await stage.listen();
    expect(await a.tryRead(30_000)).toBeNull();
    expect(await a.tryRead(10_000)).toBeNull();
    expect(await b.tryRead(60_000)).toBeNull();
    expect(await state()).toEqual({ mode: 'read', [a.owner]: '2', [b.owner]: '1' });
    expectAbout(await pttl(), 60_000);
    expectAbout(await pttl(`{${name}}:${a.owner}:rwlock_timeout:1`), 30_000);
    expectAbout(await pttl(a.holdKey(2)), 10_000);
    expectAbout(await pttl(b.holdKey(1)), 60_000);
    expectAbout(await java().tryWrite(), 60_000);
    expect(await a.unlockRead()).toBe(0);
    expect(await stage.redis.exists(a.holdKey(2))).toBe(0);
    expectAbout(await pttl(), 60_000);
    expect(await b.unlockRead()).toBe(0);
    expectAbout(await pttl(), 30_000);
    expect(await stage.heardSoFar()).toEqual([]);
    expect(await a.unlockRead()).toBe(1);
    expect(await stage.heardSoFar()).toEqual(['0']);
    expect(await stage.remains()).toEqual([]);
  });

  it('does what worked example 2 says', async () => {
    const [a, b] = [java(1), java(7)];
    await stage.listen();
    expect(await a.tryWrite()).toBeNull();
    expect(await state()).toEqual({ mode: 'write', [`${a.owner}:write`]: '1' });
    expect(await a.tryWrite()).toBeNull();
    expectAbout(await pttl(), 60_000);
    expect(await a.unlockWrite()).toBe(0);
    expectAbout(await pttl(), 30_000);
    expect(await a.tryRead()).toBeNull();
    expectAbout(await b.tryRead(), 30_000);
    expect(await a.unlockWrite()).toBe(1);
    expect(await state()).toEqual({ mode: 'read', [a.owner]: '1' });
    expect(await stage.heardSoFar()).toEqual([]);
    expectAbout(await a.tryWrite(), 30_000);
    expect(await a.unlockRead()).toBe(1);
    expect(await stage.heardSoFar()).toEqual(['0']);
  });

  it('deletes the lock under a reader that has no timeout key of its own: the trap that ours must not fall into', async () => {
    const reader = java();
    await reader.tryRead();
    await stage.redis.hset(name, 'careless:1', 1);
    expect(await reader.unlockRead()).toBe(1);
    expect(await stage.redis.exists(name)).toBe(0);
  });
});

describe('a reader of ours', () => {
  it('is exactly Redisson’s: a mode, a field, and a timeout key with the lease', async () => {
    const lock = await stage.node().acquire(name, { ...SHARED, leaseMs: 20_000 });
    const { mode, ...readers } = await state();
    expect(mode).toBe('read');
    expect(Object.values(readers)).toEqual(['1']);
    expect(await stage.redis.get(await ourReader())).toBe('1');
    expectAbout(await pttl(await ourReader()), 20_000);
    expectAbout(await pttl(), 20_000);
    await lock.release();
    expect(await stage.remains()).toEqual([]);
  });

  it('reads beside a reader of Java, whose unlock leaves ours its lease', async () => {
    const other = java();
    const lock = await stage.node().acquire(name, { ...SHARED, leaseMs: 20_000 });
    expect(await other.tryRead(60_000)).toBeNull();
    expectAbout(await pttl(), 60_000);
    expect(await other.unlockRead()).toBe(0);
    expectAbout(await pttl(), 20_000);
    expectAbout(await java(2).tryWrite(), 20_000);
    lock.assertHeld();
    expect(await lock.release()).toBe('released');
    expect(await java(2).tryWrite()).toBeNull();
  });

  it('leaves a reader of Java all its holds, and the longest of their leases', async () => {
    const other = java();
    await other.tryRead(10_000);
    await other.tryRead(20_000);
    const lock = await stage.node().acquire(name, { ...SHARED, leaseMs: 60_000 });
    await lock.release();
    expect(await state()).toEqual({ mode: 'read', [other.owner]: '2' });
    expectAbout(await pttl(), 20_000);
    expect(await other.unlockRead()).toBe(0);
    expect(await other.unlockRead()).toBe(1);
  });

  it('is kept alive by its own watchdog, not by that of a Java reader', async () => {
    const other = java();
    const lock = await stage.node().acquire(name, { ...SHARED, leaseMs: 400 });
    await other.tryRead();
    const timeoutKey = await ourReader();
    await until(async () => {
      await other.renewRead();
      return (await stage.redis.exists(timeoutKey)) === 0;
    });
    expect(await other.unlockRead()).toBe(1);
    expect(await lock.release()).toBe('lost');
  });

  it('is announced when the last reader leaves, and only then: 0', async () => {
    await stage.listen();
    const locks = stage.node();
    const [one, two] = [
      await locks.acquire(name, { ...SHARED, fair: true }),
      await locks.acquire(name, { ...SHARED, fair: true }),
    ];
    await one.release();
    expect(await stage.heardSoFar()).toEqual([]);
    await two.release();
    expect(await stage.heardSoFar()).toEqual(['0']);
  });
});

describe('a writer of ours', () => {
  it('is exactly Redisson’s, and is announced to all when it leaves: 1', async () => {
    await stage.listen();
    const lock = await stage.node().acquire(name, { ...EXCLUSIVE, leaseMs: 20_000 });
    const { mode, ...writers } = await state();
    expect(mode).toBe('write');
    expect(Object.entries(writers)).toEqual([[expect.stringMatching(/:\d+:write$/), '1']]);
    expectAbout(await pttl(), 20_000);
    expectAbout(await java().tryRead(), 20_000);
    expectAbout(await java().tryWrite(), 20_000);
    await lock.release();
    expect(await stage.heardSoFar()).toEqual(['1']);
    expect(await stage.remains()).toEqual([]);
  });

  it('waits for the last hold of a Java reader, and is woken by its unlock', async () => {
    const [other, locks] = [java(), stage.node()];
    const waitedMs = await fastest(async () => {
      await other.tryRead();
      await other.tryRead();
      const acquired = locks.acquire(name, EXCLUSIVE);
      await stage.untilListening(1);
      await other.unlockRead();
      expect(await state()).toMatchObject({ mode: 'read' });
      const freedAt = performance.now();
      await other.unlockRead();
      const lock = await acquired;
      const ms = performance.now() - freedAt;
      await lock.release();
      await stage.untilListening(0);
      return ms;
    });
    expect(waitedMs).toBeLessThan(AT_ONCE_MS);
  });

  it('waits for a Java writer, and is woken by its unlock', async () => {
    const [other, locks] = [java(), stage.node()];
    const waitedMs = await fastest(async () => {
      await other.tryWrite();
      const acquired = locks.acquire(name, EXCLUSIVE);
      await stage.untilListening(1);
      const freedAt = performance.now();
      await other.unlockWrite();
      const lock = await acquired;
      const ms = performance.now() - freedAt;
      await lock.release();
      await stage.untilListening(0);
      return ms;
    });
    expect(waitedMs).toBeLessThan(AT_ONCE_MS);
  });

  it('wakes all readers of Java when it leaves', async () => {
    const readers = [java(), java()];
    const lock = await stage.node().acquire(name, EXCLUSIVE);
    const reading = Promise.all(readers.map((reader) => reader.read()));
    await stage.untilListening(2);
    await lock.release();
    await reading;
    expect(await state()).toMatchObject({ mode: 'read', [readers[0]!.owner]: '1', [readers[1]!.owner]: '1' });
  });

  it('is not entered by a Java writer, which waits for our reader, too', async () => {
    const other = java();
    const lock = await stage.node().acquire(name, SHARED);
    const writing = other.write();
    await stage.untilListening(1);
    expect(await state()).toMatchObject({ mode: 'read' });
    await lock.release();
    await writing;
    expect(await state()).toEqual({ mode: 'write', [`${other.owner}:write`]: '1' });
  });
});

describe('a writer that steps down', () => {
  it('of ours becomes Redisson’s reader, and readers of Java enter at once', async () => {
    const reader = java();
    const lock = await stage.node().acquire(name, { ...EXCLUSIVE, leaseMs: 20_000 });
    const reading = reader.read();
    await stage.untilListening(1);
    await lock.downgrade();
    await reading;
    expect(await state()).toMatchObject({ mode: 'read', [reader.owner]: '1' });
    expectAbout(await pttl(await ourReader()), 20_000);
    expect(await reader.unlockRead()).toBe(0);
    lock.assertHeld();
    expect(await lock.release()).toBe('released');
    expect(await stage.remains()).toEqual([]);
  });

  it('of Java keeps ours out while it writes; as a reader it has ours beside it', async () => {
    const [other, locks] = [java(), stage.node()];
    await other.tryWrite();
    await other.tryRead();
    expect(await locks.tryAcquire(name, SHARED)).toBeNull();
    const reading = locks.acquire(name, SHARED);
    await stage.untilQueued(1);
    expect(await other.unlockWrite()).toBe(1);
    // Redisson tells nobody: the next look finds it.
    const lock = await reading;
    expect(await other.unlockRead()).toBe(0);
    await lock.release();
    expect(await stage.remains()).toEqual([]);
  });
});

describe('a Java reader that died', () => {
  it('keeps our writer out for its own lease only, though others read on', async () => {
    const [dead, locks] = [java(), stage.node()];
    const lock = await locks.acquire(name, SHARED);
    await dead.tryRead(300);
    const writing = stage.node().acquire(name, EXCLUSIVE);
    await stage.untilQueued(1);
    await until(async () => (await stage.redis.exists(dead.holdKey(1))) === 0);
    const freedAt = performance.now();
    await lock.release();
    const writer = await writing;
    expect(performance.now() - freedAt).toBeLessThan(5000);
    expect(Object.keys(await state())).toHaveLength(2);
    await writer.release();
    expect(await stage.remains()).toEqual([]);
  });

  it('is not counted out while one of its holds is alive', async () => {
    const [other, locks] = [java(), stage.node()];
    await other.tryRead(200);
    await other.tryRead(30_000);
    await until(async () => (await stage.redis.exists(other.holdKey(1))) === 0);
    expect(await locks.tryAcquire(name, EXCLUSIVE)).toBeNull();
    expect(await state()).toEqual({ mode: 'read', [other.owner]: '2' });
    await other.unlockRead();
    expect(await (await locks.acquire(name, EXCLUSIVE)).release()).toBe('released');
  });
});

describe('Java and we, side by side', () => {
  it('a Java writer gets in between our readers, which come without end and never all leave at once', async () => {
    const services = [stage.node(), stage.node()];
    let isDone = false;
    let turns = 0;
    const readers = services.flatMap((locks) =>
      Array.from({ length: 4 }, async () => {
        while (!isDone) await locks.withLock(name, { ...SHARED, waitMs: Infinity }, () => pause(20));
        turns += 1;
      }),
    );
    await until(async () => Object.keys(await state()).length > 1);
    const writer = java();
    for (let i = 0; i < 3; i++) {
      await writer.write();
      expect(await state()).toEqual({ mode: 'write', [`${writer.owner}:write`]: '1' });
      await writer.unlockWrite();
    }
    isDone = true;
    await Promise.all(readers);
    expect(turns).toBe(8);
  });

  it('our writer gets in between readers of Java, as soon as they all leave', async () => {
    const [one, two] = [java(), java()];
    await one.tryRead();
    const writing = stage.node().acquire(name, EXCLUSIVE);
    await stage.untilListening(1);
    await two.tryRead();
    await one.unlockRead();
    expect(await state()).toEqual({ mode: 'read', [two.owner]: '1' });
    await two.unlockRead();
    expect(await (await writing).release()).toBe('released');
  });
});

describe('force', () => {
  it('takes the lock from readers of both sides', async () => {
    const [other, locks] = [java(), stage.node()];
    await other.tryRead();
    const lock = await locks.acquire(name, SHARED);
    await stage.listen();
    expect(await locks.forceRelease(name)).toBe('released');
    // Once for the force, and once more when our reader, told of its loss, goes home.
    expect(new Set(await stage.heardSoFar())).toEqual(new Set(['0']));
    expect(await other.unlockRead()).toBeNull();
    expect(await lock.release()).toBe('lost');
    expect(await stage.remains()).toEqual([]);
  });
});
