import { afterAll, beforeAll, beforeEach, expect, it, jest } from '@jest/globals';
import { startRedisServer, type RedisServer } from '#redis-server';
import { until } from '#until';
import type { Answer, Peer, Side } from './support/peer.js';
import { BOTH_WAYS, describeBesideJava, Stage } from './support/stage.js';

jest.setTimeout(60_000);

const WATCHDOG_MS = 1500;
const RECHECK_MS = 1000;

let server: RedisServer;
let stage: Stage;
let peers: Record<Side, Peer>;
let name: string;
let count = 0;

beforeAll(async () => {
  if (!process.env['INTEROP_JAVA']) return;
  server = await startRedisServer();
  stage = new Stage({ url: server.url, watchdogTimeoutMs: WATCHDOG_MS });
  const [java, nest] = await Promise.all([stage.start('java'), stage.start('nest')]);
  peers = { java, nest };
});
beforeEach(() => {
  name = `kinds:${++count}`;
});
afterAll(async () => {
  await stage?.close();
  await server?.stop();
});

describeBesideJava('a read-write lock beside Java', () => {
  const [read, write] = [{ kind: 'read' }, { kind: 'write' }];
  const untilWaiting = () => stage.untilListening(name, 'redisson_rwlock');
  const delay = async (acquired: Promise<Answer>, { atMs }: Answer) => (await acquired).atMs - atMs;

  it.each(BOTH_WAYS)(
    'is read by %s and %s together, and written by neither meanwhile',
    async (one, other) => {
      await peers[one].order('lock', name, read);
      expect(await peers[other].order('tryLock', name, read)).toMatchObject({ held: true });
      for (const side of [one, other]) {
        expect(await peers[side].order('tryLock', name, { ...write, thread: 2 })).toMatchObject({
          held: false,
        });
      }
      await peers[one].order('unlock', name, read);
      expect(await peers[one].order('tryLock', name, { ...write, thread: 2 })).toMatchObject({ held: false });
      await peers[other].order('unlock', name, read);
      expect(await peers[one].order('tryLock', name, { ...write, thread: 2 })).toMatchObject({ held: true });
      await peers[one].order('unlock', name, { ...write, thread: 2 });
      expect(await stage.redis.exists(name)).toBe(0);
    },
  );

  it.each(BOTH_WAYS)('that %s writes is neither read nor written by %s', async (one, other) => {
    await peers[one].order('lock', name, write);
    expect(await peers[other].order('tryLock', name, read)).toMatchObject({ held: false });
    expect(await peers[other].order('tryLock', name, write)).toMatchObject({ held: false });
    expect(await peers[one].order('unlock', name, write)).toMatchObject({ outcome: 'released' });
    expect(await peers[other].order('tryLock', name, read)).toMatchObject({ held: true });
    await peers[other].order('unlock', name, read);
  });

  it.each(BOTH_WAYS)('wakes a writer of %s when the last reader of %s leaves', async (one, other) => {
    await peers[other].order('lock', name, read);
    const acquired = peers[one].order('lock', name, write);
    await untilWaiting();
    expect(await delay(acquired, await peers[other].order('unlock', name, read))).toBeLessThan(
      RECHECK_MS / 4,
    );
    await peers[one].order('unlock', name, write);
  });

  // Redisson wakes the readers that sleep: one that is about to sleep just then waits for the lease. So it is tried again.
  it.each(BOTH_WAYS)('wakes all readers of %s when a writer of %s leaves', async (one, other) => {
    const longest: number[] = [];
    while (longest.length < 5 && !(Math.min(...longest) < RECHECK_MS / 2)) {
      await peers[other].order('lock', name, write);
      const readers = [1, 2, 3].map((thread) => peers[one].order('lock', name, { ...read, thread }));
      await untilWaiting();
      const left = await peers[other].order('unlock', name, write);
      longest.push(Math.max(...(await Promise.all(readers.map((reader) => delay(reader, left))))));
      for (const thread of [1, 2, 3]) await peers[one].order('unlock', name, { ...read, thread });
    }
    expect(Math.min(...longest)).toBeLessThan(RECHECK_MS / 2);
    expect(await stage.redis.exists(name)).toBe(0);
  });

  it.each(BOTH_WAYS)(
    'that %s and %s read stays when one of them leaves, under the lease of the other',
    async (one, other) => {
      await peers[one].order('lock', name, read);
      await peers[other].order('lock', name, read);
      await peers[one].order('unlock', name, read);
      expect(await peers[one].order('tryLock', name, { ...write, waitMs: 2 * WATCHDOG_MS })).toMatchObject({
        held: false,
      });
      expect(await peers[other].order('unlock', name, read)).toMatchObject({ outcome: 'released' });
    },
  );

  it.each(BOTH_WAYS)(
    'whose reader of %s was killed lets %s write when its lease is over',
    async (one, other) => {
      const dead = await stage.start(one);
      await dead.order('lock', name, read);
      await peers[other].order('lock', name, { ...read, thread: 2 });
      const acquired = peers[other].order('lock', name, write);
      await untilWaiting();
      await dead.kill();
      await peers[other].order('unlock', name, { ...read, thread: 2 });
      const { waitedMs } = await acquired;
      expect(waitedMs).toBeLessThan(WATCHDOG_MS + 2 * RECHECK_MS);
      await peers[other].order('unlock', name, write);
    },
  );

  it('that a thread of Java reads twice is read by Nest meanwhile, and free when both have left it', async () => {
    const { owner } = await peers.java.order('lock', name, { ...read, leaseMs: 60_000 });
    await peers.java.order('lock', name, { ...read, leaseMs: 20_000 });
    await peers.nest.order('lock', name, read);
    const holds = () => stage.redis.keys(`{${name}}:${owner}:rwlock_timeout:*`);
    expect(await holds()).toHaveLength(2);
    await peers.java.order('unlock', name, read);
    await peers.nest.order('unlock', name, read);
    expect(await holds()).toHaveLength(1);
    expect(await stage.redis.pttl(name)).toBeGreaterThan(50_000);
    await peers.nest.order('lock', name, read);
    await peers.java.order('unlock', name, read);
    expect(await stage.redis.pttl(name)).toBeLessThanOrEqual(WATCHDOG_MS);
    expect(await peers.nest.order('unlock', name, read)).toMatchObject({ outcome: 'released' });
    expect(await stage.redis.keys(`*${name}*`)).toEqual([`nest_lock_token:{${name}}`]);
  });

  it('that Java holds as writer and reader is read by Nest once Java has stepped down', async () => {
    await peers.java.order('lock', name, write);
    await peers.java.order('lock', name, read);
    expect(await peers.nest.order('tryLock', name, read)).toMatchObject({ held: false });
    await peers.java.order('unlock', name, write);
    expect(await peers.nest.order('lock', name, read)).toMatchObject({ held: true });
    await peers.java.order('unlock', name, read);
    expect(await peers.java.order('tryLock', name, write)).toMatchObject({ held: false });
    expect(await peers.nest.order('unlock', name, read)).toMatchObject({ outcome: 'released' });
  });

  it('that readers of Nest hold one over the other all the time is written by Java all the same', async () => {
    let isDone = false;
    const reading = [1, 2, 3, 4].map(async (thread) => {
      while (!isDone) await peers.nest.order('hold', name, { ...read, thread, holdMs: 20 * thread });
    });
    const { waitedMs } = await peers.java.order('lock', name, write);
    isDone = true;
    expect(waitedMs).toBeLessThan(4 * RECHECK_MS);
    await peers.java.order('unlock', name, write);
    await Promise.all(reading);
  });

  it('that Nest steps down from is read by a waiter of Java at once', async () => {
    await peers.nest.order('lock', name, write);
    const acquired = peers.java.order('lock', name, read);
    await untilWaiting();
    expect(await delay(acquired, await peers.nest.order('downgrade', name))).toBeLessThan(RECHECK_MS / 4);
    await peers.nest.order('unlock', name);
    expect(await peers.java.order('unlock', name, read)).toMatchObject({ outcome: 'released' });
  });
});

describeBesideJava('permits beside Java’s PermitExpirableSemaphore', () => {
  const permits = 3;
  const take = (side: Side, thread: number, more = {}): Promise<Answer> =>
    side === 'java'
      ? peers.java.order('takeLeasedPermit', name, { leaseMs: 30_000, thread, ...more })
      : peers.nest.order('tryLock', name, { permits, thread, ...more });
  const give = (side: Side, thread: number, { permit }: Answer): Promise<Answer> =>
    side === 'java'
      ? peers.java.order('giveLeasedPermit', name, { permit, thread })
      : peers.nest.order('unlock', name, { thread });

  it.each(BOTH_WAYS)('are never more than there are, whether %s or %s takes them', async (one, other) => {
    await peers.java.order('setLeasedPermits', name, { permits });
    const taken = [await take(one, 1), await take(other, 2), await take(one, 3)];
    expect(taken).toMatchObject([{ held: true }, { held: true }, { held: true }]);
    expect(await take(one, 4)).toMatchObject({ held: false });
    expect(await take(other, 4)).toMatchObject({ held: false });
    expect(await give(other, 2, taken[1]!)).toMatchObject({ outcome: 'released' });
    const last = await take(one, 4);
    expect(last).toMatchObject({ held: true });
    expect(await take(other, 5)).toMatchObject({ held: false });
    for (const [thread, permit] of [
      [1, taken[0]],
      [3, taken[2]],
      [4, last],
    ] as const) {
      expect(await give(one, thread, permit!)).toMatchObject({ outcome: 'released' });
    }
    expect(await peers.java.order('countLeasedPermits', name)).toMatchObject({ permits });
  });

  it.each(BOTH_WAYS)('that %s gives back wake %s', async (one, other) => {
    await peers.java.order('setLeasedPermits', name, { permits });
    const [first, ...others] = [await take(one, 1), await take(one, 2), await take(one, 3)];
    const waiting = take(other, 4, { waitMs: 30_000 });
    await stage.untilListening(name, 'redisson_sc');
    const { atMs } = await give(one, 1, first!);
    const served = await waiting;
    expect(served.held).toBe(true);
    expect(served.atMs - atMs).toBeLessThan(RECHECK_MS / 4);
    await give(other, 4, served);
    for (const [i, permit] of others.entries()) await give(one, i + 2, permit);
    expect(await peers.java.order('countLeasedPermits', name)).toMatchObject({ permits });
  });

  it('that Nest takes over and over again, and leaves none unused, are had by Java all the same', async () => {
    await peers.java.order('setLeasedPermits', name, { permits });
    const nests = [peers.nest, await stage.start('nest')];
    let isDone = false;
    const taking = Array.from({ length: 8 }, async (_, thread) => {
      while (!isDone) await nests[thread % 2]!.order('hold', name, { permits, thread, holdMs: 20 });
    });
    await until(async () => (await stage.redis.zcard(`nest_lock_queue:{${name}}`)) >= 2);
    const served = await take('java', 9, { waitMs: 30_000 });
    isDone = true;
    expect(served.held).toBe(true);
    expect(served.waitedMs).toBeLessThan(4 * RECHECK_MS);
    await give('java', 9, served);
    await Promise.all(taking);
    expect(await peers.java.order('countLeasedPermits', name)).toMatchObject({ permits });
  });

  it.each(BOTH_WAYS)('of %s that run out are had by %s', async (one, other) => {
    await peers.java.order('setLeasedPermits', name, { permits });
    for (const thread of [1, 2, 3])
      expect(await take(one, thread, { leaseMs: 700 })).toMatchObject({ held: true });
    const served = await take(other, 4, { waitMs: 10_000 });
    expect(served.held).toBe(true);
    expect(served.waitedMs).toBeGreaterThan(500);
    expect(served.waitedMs).toBeLessThan(700 + RECHECK_MS);
    await give(other, 4, served);
  });
});

describeBesideJava('one name for two kinds', () => {
  it('is refused by Nest, and not by Java: a read lock of Java enters beside a plain lock', async () => {
    await peers.java.order('lock', name);
    expect(await peers.nest.order('tryLock', name, { kind: 'read' })).toMatchObject({ held: false });
    expect(await peers.nest.order('tryLock', name, { kind: 'write' })).toMatchObject({ held: false });
    await peers.java.order('unlock', name);
    await peers.nest.order('lock', name);
    expect(await peers.java.order('tryLock', name, { kind: 'read' })).toMatchObject({ held: true });
  });

  it('hides the holders of a plain semaphore of Java, whom nobody knows, from our permits', async () => {
    await peers.java.order('setPermits', name, { permits: 3 });
    expect(await peers.java.order('takePermits', name, { permits: 3 })).toMatchObject({ held: true });
    expect(await peers.java.order('countPermits', name)).toMatchObject({ permits: 0 });
    expect(await peers.nest.order('tryLock', name, { permits: 3 })).toMatchObject({ held: true });
    await peers.java.order('givePermits', name, { permits: 3 });
  });
});

describeBesideJava('all kinds', () => {
  it('are announced by nothing but numbers, and neither side has complained', () => {
    expect(stage.complaints).toBe('');
    expect(stage.heard.filter((heard) => !/^redisson\S+ -?\d+$/.test(heard))).toEqual([]);
  });
});
