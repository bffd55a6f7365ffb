import { afterEach, describe, expect, it } from '@jest/globals';
import type { Term } from 'nestjs-distributed-lock/leader';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { until } from '#until';
import { ownRedis } from '../support/own-redis.js';
import { recordedRedis, type ScriptCall } from '../support/recorded-redis.js';
import { wireName } from '../support/wire-names.js';
import { leaderEventsOf, startInstance, type InstanceOptions } from './support/instances.js';
import { startProcess, type InstanceProcess } from './support/start-process.mjs';

const KEY = 'leader:poller';
const redis = ownRedis('leader');

describe('the leader of three instances on Redis', () => {
  async function three(options: InstanceOptions = {}) {
    const calls: ScriptCall[][] = [[], [], []];
    const start = (i: number) =>
      startInstance({ store: redisStore(recordedRedis(redis.url, calls[i]!)), ...options });
    const first = await start(0);
    await until(() => first.leader.isLeader);
    const next = await start(1);
    await redis.eyes.untilQueued(KEY, 1);
    const last = await start(2);
    await redis.eyes.untilQueued(KEY, 2);
    return { first, next, last, calls };
  }

  it('hands the lead over by one notification when it closes: no other instance has to ask', async () => {
    const { first, next, last, calls } = await three();
    const acquires = () =>
      calls[1]!.filter(({ sha }) => wireName(['evalsha', sha]).startsWith('acquire')).length;
    // A recheck may come between, as it does once a second. It finds nothing and is no part of the hand-over.
    const before = acquires();
    const startedAt = performance.now();
    const closing = first.app.close();
    await until(() => next.leader.isLeader);
    const tookMs = performance.now() - startedAt;
    expect(acquires() - before).toBeLessThanOrEqual(Math.ceil(tookMs / 1000));
    expect(next.events).toContainEqual(expect.objectContaining({ type: 'elected', key: KEY }));
    await closing;
    expect(last.leader.isLeader).toBe(false);
    expect(await redis.eyes.queue(KEY)).toHaveLength(1);
    expect(next.poller.terms[0]!.fencingToken).toBeGreaterThan(first.poller.terms[0]!.fencingToken);
    expect(leaderEventsOf(first)).toEqual(['candidate', 'elected', 'demoted: shutdown']);
  });

  it('leaves nothing in Redis when all have closed, those in the queue first', async () => {
    const { first, next, last } = await three();
    await Promise.all([last.app.close(), next.app.close()]);
    expect(leaderEventsOf(next)).toEqual(['candidate']);
    expect(first.leader.isLeader).toBe(true);
    await first.app.close();
    expect(await redis.eyes.remains(KEY)).toEqual([]);
  });

  it('is not elected while its application closes, at whatever moment of the election that begins', async () => {
    for (const turns of [0, 1, 2, 3, 5, 8, 13]) {
      const { app, poller, leader } = await startInstance({ store: redisStore(redis.url) });
      for (let i = 0; i < turns; i++) await new Promise((resolve) => setImmediate(resolve));
      await app.close();
      expect([leader.isLeader, poller.terms.length]).toEqual([false, poller.ended.length]);
      expect(await redis.eyes.remains(KEY)).toEqual([]);
    }
  });

  it('is told no later than its lease ends that Redis is away, and is elected again when Redis is back', async () => {
    const store = redisStore(redis.url, { commandTimeoutMs: 100 });
    const { leader, poller, events } = await startInstance({ store, watchdogTimeoutMs: 300 });
    await until(() => leader.isLeader);
    const [term] = poller.terms as [Term];
    await redis.server.pause();
    await until(() => term.signal.aborted);
    expect(leader.isLeader).toBe(false);
    expect(term.signal.reason).toMatchObject({ code: 'LOCK_LOST' });
    await until(() => poller.ended.length === 1);
    await redis.server.resume();
    await until(() => leader.isLeader);
    expect(poller.terms.at(-1)!.fencingToken).toBeGreaterThan(term.fencingToken);
    expect(events.filter((it) => it.type === 'error' && it.during === 'election')).toEqual([]);
  });

  it('is elected once Redis refuses its key no longer, and each refusal is one error event', async () => {
    await redis.eyes.client.set(KEY, 'data of another application');
    const { leader, events } = await startInstance({ store: redisStore(redis.url) });
    const refusals = () => events.filter((it) => it.type === 'error' && it.during === 'election');
    await until(() => refusals().length === 2);
    expect(refusals()[0]).toMatchObject({ key: KEY, error: { code: 'LOCK_STORE', reason: 'refused' } });
    expect(leader.isLeader).toBe(false);
    await redis.eyes.client.del(KEY);
    await until(() => leader.isLeader);
  });
});

describe('a leader in a process of its own', () => {
  const LEASE_MS = 900;
  const open: InstanceProcess[] = [];
  afterEach(async () => {
    await Promise.all(open.splice(0).map((instance) => instance.stop()));
  });

  /** Two processes, of which the first one leads. */
  async function two(watchdogTimeoutMs = LEASE_MS) {
    await redis.eyes.client.flushall();
    const start = async () => {
      const instance = await startProcess({ url: redis.url, watchdogTimeoutMs });
      open.push(instance);
      return instance;
    };
    const first = await start();
    const old = await first.when('elected');
    const next = await start();
    await redis.eyes.untilQueued(KEY, 1);
    return { first, next, old };
  }

  it('that gets SIGTERM steps down before it ends, and the next one leads long before its lease is over', async () => {
    const { first, next, old } = await two(60_000);
    first.send('SIGTERM');
    const demoted = await first.when('demoted');
    const elected = await next.when('elected');
    expect(elected.fencingToken).toBeGreaterThan(old.fencingToken);
    expect(elected.at).toBeGreaterThan(demoted.at);
    await first.exited;
  });

  it('that is killed is followed when its lease is over, and not before', async () => {
    const { first, next, old } = await two();
    const askedAt = performance.timeOrigin + performance.now();
    const leftMs = await redis.eyes.client.pttl(KEY);
    first.send('SIGKILL');
    const elected = await next.when('elected');
    expect(elected.fencingToken).toBeGreaterThan(old.fencingToken);
    // Clocks that are adjusted differ by a little. A renewal before the kill makes it later.
    expect(elected.at - askedAt).toBeGreaterThan(leftMs - 20);
    expect(await redis.eyes.holder(KEY)).toBeDefined();
  });

  it('that is frozen until another one leads is told that its term is over, and its writes are refused', async () => {
    const { first, next, old } = await two();
    first.send('SIGSTOP');
    const elected = await next.when('elected');
    await until(async () => (await redis.eyes.client.get('written')) === String(elected.fencingToken));
    first.send('SIGCONT');
    expect(await first.when('refused')).toMatchObject({ fencingToken: old.fencingToken });
    expect(await first.when('demoted')).toMatchObject({ fencingToken: old.fencingToken });
    expect(await redis.eyes.client.get('written')).toBe(String(elected.fencingToken));
    expect(first.said.filter(({ what }) => what === 'elected')).toHaveLength(1);
  });
});
