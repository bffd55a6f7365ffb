import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { zookeeperStore } from 'nestjs-distributed-lock/zookeeper';
import { until } from '#until';
import { startZookeeperCluster } from '#zookeeper-server';
import type { Member } from '../../../tools/own-cluster/index.mjs';
import { closeServices, openServiceOn, untilAborted } from '../../support/lock-services.js';
import { describeWith } from '../support/describe-with.js';
import { ownServer } from '../../support/own-server.js';

/** Some elections of ZooKeeper fail, and are held again after several seconds. */
const ELECTION_MS = 40_000;
const SESSION_MS = 6000;

describeWith('zookeeper')('a service on three ZooKeeper servers', () => {
  const cluster = ownServer(startZookeeperCluster);
  let key: string;
  const open = (members: readonly Member[], watchdogTimeoutMs = SESSION_MS) =>
    openServiceOn(zookeeperStore(members.map(({ url }) => url)), { watchdogTimeoutMs });
  const others = (member: Member) => cluster.members.filter((each) => each !== member);
  beforeEach(() => {
    key = `k:${randomUUID()}`;
  });
  afterEach(async () => {
    cluster.links.mend();
    for (const member of cluster.members) await member.resume();
    await closeServices();
    await cluster.untilHealthy();
  }, ELECTION_MS);

  it(
    'goes on with its locks when the leader is killed',
    async () => {
      const leader = await cluster.leader();
      const service = open(cluster.members, 30_000);
      const other = open(others(leader), 30_000);
      const lock = await service.acquire(key);
      const waiting = other.acquire(key, { waitMs: ELECTION_MS });
      await leader.kill();
      // The owner waits on whatever happens to its requests.
      await until(
        async () => (await service.inspect(key).catch(() => null))?.pending.length === 1,
        ELECTION_MS,
      );
      expect(lock.signal.aborted).toBe(false);
      await lock.release();
      const next = await waiting;
      expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
      await next.release();
      await leader.restart();
    },
    2 * ELECTION_MS,
  );

  it(
    'moves to another server when its own is frozen, with its session and its locks',
    async () => {
      const leader = await cluster.leader();
      const [follower] = others(leader) as [Member];
      const service = openServiceOn(zookeeperStore([follower.url, leader.url]), {
        watchdogTimeoutMs: 30_000,
      });
      const lock = await service.acquire(key);
      await follower.pause();
      await until(() => service.tryAcquire(`${key}:other`).then(Boolean, () => false), ELECTION_MS);
      expect(lock.signal.aborted).toBe(false);
      expect(await lock.release()).toBe('released');
      await follower.resume();
      await until(async () => (await service.inspect(key)) === null);
    },
    ELECTION_MS,
  );

  it(
    'answers from the newest document on a follower that lags behind',
    async () => {
      const leader = await cluster.leader();
      const [follower] = others(leader) as [Member];
      const behind = open([follower]);
      const ahead = open([leader]);
      await behind.withLock(key, () => undefined);
      cluster.links.delay(follower.id, 150);
      for (let i = 0; i < 10; i++) {
        const lock = await ahead.acquire(key, { waitMs: 5000 });
        expect(await behind.tryAcquire(key)).toBeNull();
        expect((await behind.inspect(key))?.fencingToken).toBe(lock.fencingToken);
        await lock.release();
      }
      await until(async () => (await ahead.inspect(key)) === null);
      expect(await behind.inspect(key)).toBeNull();
    },
    ELECTION_MS,
  );

  it(
    'stops believing in its lock before another is let in, when it is cut off together with its server',
    async () => {
      const leader = await cluster.leader();
      const [follower] = others(leader) as [Member];
      const cutOff = open([follower]);
      const other = open(others(follower));
      const lock = await cutOff.acquire(key);
      await other.withLock(`${key}:other`, () => undefined);
      let abortedAt = Infinity;
      void untilAborted(lock.signal).then(() => (abortedAt = performance.now()));
      const cutAt = performance.now();
      cluster.links.isolate(follower.id);
      const next = await other.acquire(key, { waitMs: ELECTION_MS });
      const grantedAt = performance.now();
      expect(abortedAt).toBeLessThan(grantedAt);
      expect(grantedAt - cutAt).toBeGreaterThan(SESSION_MS / 2);
      expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
      await next.release();
    },
    2 * ELECTION_MS,
  );

  it(
    'stops believing in its lock before another is let in, when it is left with a leader that lost its majority',
    async () => {
      const leader = await cluster.leader();
      const left = open([leader]);
      const other = open(others(leader));
      const lock = await left.acquire(key);
      await other.withLock(`${key}:other`, () => undefined);
      let abortedAt = Infinity;
      void untilAborted(lock.signal).then(() => (abortedAt = performance.now()));
      cluster.links.isolate(leader.id);
      await leader.pause();
      await new Promise((resolve) => setTimeout(resolve, SESSION_MS * 0.5));
      await leader.resume();
      const next = await other.acquire(key, { waitMs: ELECTION_MS });
      expect(abortedAt).toBeLessThan(performance.now());
      expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
      await next.release();
    },
    2 * ELECTION_MS,
  );
});
