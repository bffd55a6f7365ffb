import { afterAll, beforeAll, beforeEach, expect, it, jest } from '@jest/globals';
import { startRedisServer } from '#redis-server';
import { until } from '#until';
import type { Peer, Side } from './support/peer.js';
import { BOTH_WAYS, describeBesideJava, Stage } from './support/stage.js';
import { ownServer } from '../support/own-server.js';

jest.setTimeout(60_000);

const WATCHDOG_MS = 1500;
const RECHECK_MS = 1000;

describeBesideJava('a lock beside Java', () => {
  const server = ownServer(startRedisServer);
  let stage: Stage;
  let peers: Record<Side, Peer>;
  let name: string;
  let count = 0;

  beforeAll(async () => {
    stage = new Stage({ url: server.url, watchdogTimeoutMs: WATCHDOG_MS });
    const [java, nest] = await Promise.all([stage.start('java'), stage.start('nest')]);
    peers = { java, nest };
  });
  beforeEach(() => {
    name = `interop:${++count}`;
  });
  afterAll(() => stage?.close());

  it.each(BOTH_WAYS)('that %s holds is refused to %s until it is given back', async (one, other) => {
    const [holder, asker] = [peers[one], peers[other]];
    await holder.order('lock', name);
    expect(await asker.order('tryLock', name)).toMatchObject({ held: false });
    expect(await asker.order('state', name)).toMatchObject({ locked: true, mine: false });
    expect(await holder.order('unlock', name)).toMatchObject({ outcome: 'released' });
    expect(await asker.order('tryLock', name)).toMatchObject({ held: true });
    expect(await holder.order('tryLock', name)).toMatchObject({ held: false });
    expect(await asker.order('unlock', name)).toMatchObject({ outcome: 'released' });
  });

  it.each(BOTH_WAYS)(
    'that %s holds excludes nobody from the name in braces, whose waiter of %s gets its own lock alone',
    async (one, other) => {
      const [holder, waiter] = [peers[one], peers[other]];
      const braced = `{${name}}`;
      await holder.order('lock', name);
      await holder.order('lock', braced);
      const acquired = waiter.order('lock', braced);
      // Both names have this channel.
      await stage.untilListening(name);
      expect(await holder.order('unlock', braced)).toMatchObject({ outcome: 'released' });
      expect((await acquired).held).not.toBe(false);
      expect(await waiter.order('tryLock', name)).toMatchObject({ held: false });
      expect(await holder.order('state', name)).toMatchObject({ locked: true, mine: true });
      expect(await holder.order('unlock', name)).toMatchObject({ outcome: 'released' });
      expect(await waiter.order('unlock', braced)).toMatchObject({ outcome: 'released' });
      await stage.untilNobodyListens(name);
    },
  );

  it.each(BOTH_WAYS)('that %s gives back wakes %s within milliseconds', async (one, other) => {
    const [holder, waiter] = [peers[one], peers[other]];
    const delays: number[] = [];
    for (let turn = 0; turn < 5; turn++) {
      await holder.order('lock', name);
      const acquired = waiter.order('lock', name);
      await stage.untilListening(name);
      const { atMs } = await holder.order('unlock', name);
      delays.push((await acquired).atMs - atMs);
      await waiter.order('unlock', name);
      await stage.untilNobodyListens(name);
    }
    // Whoever is not woken looks after a second, or when the lease is over.
    expect(Math.min(...delays)).toBeLessThan(RECHECK_MS / 10);
    expect(Math.max(...delays)).toBeLessThan(RECHECK_MS / 2);
  });

  it.each(BOTH_WAYS)(
    'that %s lets run out goes to %s when its lease is over, not before',
    async (one, other) => {
      const leaseMs = 700;
      const { atMs } = await peers[one].order('lock', name, { leaseMs });
      const next = await peers[other].order('lock', name);
      expect(next.atMs - atMs).toBeGreaterThan(leaseMs - 100);
      expect(next.atMs - atMs).toBeLessThan(leaseMs + RECHECK_MS / 2);
      expect(await peers[one].order('unlock', name)).toMatchObject({ outcome: 'lost' });
      expect(await peers[other].order('unlock', name)).toMatchObject({ outcome: 'released' });
    },
  );

  it.each(BOTH_WAYS)(
    'that the watchdog of %s keeps is not had by %s, however long it waits',
    async (one, other) => {
      await peers[one].order('lock', name);
      const waitMs = 2 * WATCHDOG_MS;
      const { held, waitedMs } = await peers[other].order('tryLock', name, { waitMs });
      expect(held).toBe(false);
      expect(waitedMs).toBeGreaterThanOrEqual(waitMs - 5);
      expect(await peers[one].order('unlock', name)).toMatchObject({ outcome: 'released' });
    },
  );

  it.each(BOTH_WAYS)(
    'whose holder of %s was killed goes to %s when its lease is over, not before',
    async (one, other) => {
      const holder = await stage.start(one);
      await holder.order('lock', name);
      const acquired = peers[other].order('lock', name);
      await stage.untilListening(name);
      const left = await stage.redis.pttl(name);
      const killedAt = performance.timeOrigin + performance.now();
      await holder.kill();
      const { atMs } = await acquired;
      expect(atMs - killedAt).toBeGreaterThan(left - 20);
      expect(atMs - killedAt).toBeLessThan(WATCHDOG_MS + RECHECK_MS);
      await peers[other].order('unlock', name);
    },
  );

  it.each(BOTH_WAYS)('whose waiter of %s was killed goes to %s at once', async (one, other) => {
    const dead = await stage.start(one);
    await peers[other].order('lock', name);
    dead.order('lock', name).catch(() => undefined);
    await stage.untilListening(name);
    if (one === 'nest') await until(async () => (await stage.redis.zcard(`nest_lock_queue:{${name}}`)) === 1);
    await dead.kill();
    await peers[other].order('unlock', name);
    const { waitedMs } = await peers[other].order('lock', name);
    expect(waitedMs).toBeLessThan(RECHECK_MS / 2);
    await peers[other].order('unlock', name);
  });

  it.each(BOTH_WAYS)(
    'that is taken from %s by force goes to the waiter of %s at once',
    async (one, other) => {
      await peers[one].order('lock', name);
      const acquired = peers[other].order('lock', name);
      await stage.untilListening(name);
      const { freed, atMs } = await peers[other].order('forceUnlock', name, { thread: 2 });
      expect(freed).toBe(true);
      expect((await acquired).atMs - atMs).toBeLessThan(RECHECK_MS / 2);
      expect(await peers[one].order('unlock', name)).toMatchObject({ outcome: 'lost' });
      expect(await peers[other].order('unlock', name)).toMatchObject({ outcome: 'released' });
    },
  );

  it('that Java takes by force from Nest is told to it by the next renewal', async () => {
    await peers.nest.order('lock', name);
    const forcedAt = performance.now();
    await peers.java.order('forceUnlock', name);
    await until(() => peers.nest.told.some((told) => told.event === 'lost' && told.name === name));
    expect(performance.now() - forcedAt).toBeLessThan(WATCHDOG_MS / 2);
  });

  it.each(['fenced', 'fair', 'spin'])('excludes a lock of Java of kind %s, and the reverse', async (kind) => {
    await peers.java.order('lock', name, { kind });
    expect(await peers.nest.order('tryLock', name)).toMatchObject({ held: false });
    await peers.java.order('unlock', name, { kind });
    expect(await peers.nest.order('lock', name)).toMatchObject({ held: true });
    expect(await peers.java.order('tryLock', name, { kind })).toMatchObject({ held: false });
    await peers.nest.order('unlock', name);
    expect(await peers.java.order('lock', name, { kind })).toMatchObject({ held: true });
    await peers.java.order('unlock', name, { kind });
  });

  it('of Java’s kind spin is had by the next recheck: it is the one that announces no release', async () => {
    await peers.java.order('lock', name, { kind: 'spin' });
    const acquired = peers.nest.order('lock', name);
    await stage.untilListening(name);
    const { atMs } = await peers.java.order('unlock', name, { kind: 'spin' });
    expect((await acquired).atMs - atMs).toBeLessThan(RECHECK_MS * 1.5);
    await peers.nest.order('unlock', name);
  });

  it('counts its fencing tokens apart from Java’s fenced lock: each side’s grow, and they do not compare', async () => {
    const tokens: Record<Side, number[]> = { java: [], nest: [] };
    for (let turn = 0; turn < 3; turn++) {
      for (const [side, kind] of [['java', 'fenced'], ['nest']] as const) {
        const { token } = await peers[side].order('lock', name, { kind });
        tokens[side].push(token as number);
        await peers[side].order('unlock', name, { kind });
      }
    }
    expect(tokens.java).toEqual([1, 2, 3]);
    expect(tokens.nest).toEqual([...tokens.nest].sort((a, b) => a - b));
    expect(await stage.redis.get(`redisson_lock_token:{${name}}`)).toBe('3');
    expect(await stage.redis.get(`nest_lock_token:{${name}}`)).toBe(`${tokens.nest[2]}`);
  });

  it('counts its fencing tokens with Java’s fenced lock where they are shared: they grow as one', async () => {
    const nest = await stage.start('nest', { sharedTokens: true });
    const tokens: number[] = [];
    for (let turn = 0; turn < 4; turn++) {
      for (const [peer, kind] of [[peers.java, 'fenced'], [nest]] as const) {
        const { token } = await peer.order('lock', name, { kind });
        tokens.push(token as number);
        await peer.order('unlock', name, { kind });
      }
    }
    expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b));
    expect(Number(await stage.redis.get(`redisson_lock_token:{${name}}`))).toBe(tokens.at(-1));
  });

  it('is announced by nothing but what Redisson knows, and neither side has complained', () => {
    expect(stage.complaints).toBe('');
    expect(stage.heard.length).toBeGreaterThan(20);
    expect(stage.heard.filter((heard) => !/^redisson\S+ [01]$/.test(heard))).toEqual([]);
  });
});
