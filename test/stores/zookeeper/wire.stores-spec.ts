import { beforeEach, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { until } from '#until';
import { PATIENT } from '../../support/patient.js';
import { describeWith } from '../support/describe-with.js';
import { ownZookeeper } from './support/own-zookeeper.js';
import { RequestCounts } from './support/request-counts.js';

describeWith('zookeeper')('the requests that a service on ZooKeeper sends', () => {
  const zookeeper = ownZookeeper();
  let counts: RequestCounts;
  let service: LockService;
  beforeEach(async () => {
    counts = new RequestCounts(zookeeper.proxy);
    service = await zookeeper.openProxied();
  });

  it('are two multis for a lock that nobody else wants', async () => {
    const lockOnce = async () => {
      await service.withLock(zookeeper.key, () => undefined);
      await zookeeper.untilFree(zookeeper.key);
    };
    expect(await counts.during(lockOnce)).toEqual({ multi: 2 });
    expect(await counts.during(lockOnce)).toEqual({ multi: 2 });
  });

  it('are one reading for a key that is held, if the caller knows it and does not wait', async () => {
    const other = zookeeper.open();
    const lock = await other.acquire(zookeeper.key);
    expect(await service.tryAcquire(zookeeper.key)).toBeNull();
    const once = async () => expect(await service.tryAcquire(zookeeper.key)).toBeNull();
    const sent = await counts.during(once);
    expect(sent['multi'] ?? 0).toBe(0);
    expect(sent).toMatchObject({ sync: expect.any(Number), getData: 1, getChildren2: 1 });
    await lock.release();
  });

  it('are one write and its reading a second and waited key at most, beside the first', async () => {
    await service.acquire(zookeeper.key);
    const other = await zookeeper.openProxied();
    const waiting = other.acquire(zookeeper.key, { waitMs: 10_000 });
    await until(async () => (await service.inspect(zookeeper.key))?.pending.length === 1);
    const seconds = 3;
    const sent = await counts.during(() => new Promise((resolve) => setTimeout(resolve, seconds * 1000)));
    // A note, and the message about it to the holder, which reads it.
    expect(sent['multi'] ?? 0).toBeLessThanOrEqual(2 * seconds + 1);
    expect(sent['getChildren2'] ?? 0).toBeLessThanOrEqual(seconds + 1);
    await service.forceRelease(zookeeper.key);
    await (await waiting).release();
  });

  it('are readings alone for a thousand renewals, and all of these locks come free', async () => {
    const keys = Array.from({ length: 1000 }, (_, i) => `${zookeeper.key}:${i}`);
    const holder = await zookeeper.openProxied({ commandTimeoutMs: 8000 }, { watchdogTimeoutMs: 24_000 });
    const locks = await Promise.all(keys.map((key) => holder.acquire(key)));
    const sent = await counts.during(() => new Promise((resolve) => setTimeout(resolve, 10_000)));
    expect(locks.filter(({ signal }) => signal.aborted)).toEqual([]);
    expect(sent['multi'] ?? 0).toBe(0);
    // Each lock is renewed once in 8 s. The server catches up with the leader once for all that are read in one turn.
    expect(sent['sync']).toBeLessThan(100);
    // Not all of them in these seconds, on a busy machine.
    expect(sent['getData']).toBeGreaterThan(500);
    expect(sent['getData']).toBeLessThanOrEqual(2100);
    const other = zookeeper.open(zookeeper.server.url, PATIENT);
    expect(await other.tryAcquire(keys[500] as string)).toBeNull();
    await Promise.all(locks.map((lock) => lock.release()));
    const again = await Promise.all(keys.map((key) => other.acquire(key, { waitMs: 20_000 })));
    expect(again.every(({ fencingToken }, i) => fencingToken > locks[i]!.fencingToken)).toBe(true);
  }, 120_000);
});
