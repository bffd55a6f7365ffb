import { describe, expect, it } from '@jest/globals';
import { memoryStore } from '../../memory/store.js';
import { LockWorld } from '../../../../../test/support/lock-world.js';
import { ManualClock } from '../../testing/manual-clock.js';
import { LockWaitTimeoutError } from '../../port/lock.errors.js';
import { LockService } from '../lock.service.js';

describe('a lock that is held at least for a time', () => {
  const clock = new ManualClock();
  const store = memoryStore();
  const pods = [new LockService({ store, clock }), new LockService({ store, clock })] as const;

  it('lets the call return at once, and nobody else in before the time is over', async () => {
    const runs: string[] = [];
    const job = (pod: LockService, name: string) =>
      pod.withLock('report', { waitMs: 0, holdAtLeastMs: 30_000 }, () => runs.push(name));
    await job(pods[0], 'first');
    await clock.advance(29_000);
    await expect(job(pods[1], 'second')).rejects.toThrow('is not free');
    await expect(job(pods[0], 'first again')).rejects.toThrow('is not free');
    await clock.advance(1100);
    await job(pods[1], 'next night');
    expect(runs).toEqual(['first', 'next night']);
  });

  it('is not shortened by callers of the same process that wait', async () => {
    await pods[0].withLock('queue', { holdAtLeastMs: 5000 }, () => undefined);
    let served = false;
    const next = pods[0].withLock('queue', () => (served = true));
    await clock.advance(4900);
    expect(served).toBe(false);
    await clock.advance(200);
    expect(await next).toBe(true);
  });

  it('is not shortened by callers of the same process that could be handed the lock', async () => {
    const before = await pods[0].acquire('handed on');
    const holding = pods[0].acquire('handed on', { holdAtLeastMs: 5000 });
    let served = false;
    const next = pods[0].withLock('handed on', () => (served = true));
    await clock.advance(10);
    await before.release();
    await clock.advance(10);
    await (await holding).release();
    await clock.advance(4900);
    expect(served).toBe(false);
    await clock.advance(200);
    expect(await next).toBe(true);
  });

  it('is not shortened by a nested call that asks for less', async () => {
    await pods[0].withLock('cut', { holdAtLeastMs: 2000 }, () =>
      pods[0].withLock('cut', { holdAtLeastMs: 100 }, () => undefined),
    );
    await clock.advance(1900);
    expect(await pods[1].tryAcquire('cut')).toBeNull();
    await clock.advance(200);
    expect(await pods[1].tryAcquire('cut')).not.toBeNull();
  });

  it('is longer when a nested call asks for it', async () => {
    await pods[0].withLock('nested', () =>
      pods[0].withLock('nested', { holdAtLeastMs: 2000 }, () => undefined),
    );
    await clock.advance(1900);
    expect(await pods[1].tryAcquire('nested')).toBeNull();
    await clock.advance(200);
    expect(await pods[1].tryAcquire('nested')).not.toBeNull();
  });

  it('costs a longer work nothing', async () => {
    await pods[0].withLock('long', { holdAtLeastMs: 100 }, () => clock.advance(200));
    expect(await pods[1].tryAcquire('long')).not.toBeNull();
  });

  it('refuses a time that is longer than the fixed lease, with both numbers', async () => {
    const call = pods[0].acquire('k', { leaseMs: 1000, holdAtLeastMs: 2000 });
    await expect(call).rejects.toThrow('holdAtLeastMs (2000) must not be longer than leaseMs (1000)');
  });

  it('refuses it also when the lease comes from the defaults', async () => {
    const pod = new LockService({ store, clock, defaults: { leaseMs: 1000 } });
    await expect(pod.acquire('k', { holdAtLeastMs: 2000 })).rejects.toThrow(
      'must not be longer than leaseMs (1000)',
    );
  });

  it('survives the shutdown of its process', async () => {
    const pod = new LockService({ store, clock });
    await pod.withLock('survivor', { holdAtLeastMs: 3000 }, () => undefined);
    await pod.close();
    expect(await pods[1].tryAcquire('survivor')).toBeNull();
    await clock.advance(3100);
    expect(await pods[1].tryAcquire('survivor')).not.toBeNull();
  });

  it('is kept when the shutdown takes the lock from work that goes on', async () => {
    const pod = new LockService({ store, clock, shutdownGraceMs: 500 });
    const lock = await pod.acquire('cut short', { holdAtLeastMs: 3000 });
    const closed = pod.close();
    await clock.advance(600);
    await closed;
    expect(lock.validForMs).toBe(0);
    expect(await pods[1].tryAcquire('cut short')).toBeNull();
    await clock.advance(2500);
    expect(await pods[1].tryAcquire('cut short')).not.toBeNull();
  });

  it('is kept beyond a fixed lease that runs out before it', async () => {
    const lock = await pods[0].acquire('outlived', { leaseMs: 1000 });
    await lock.run(() => pods[0].withLock('outlived', { holdAtLeastMs: 2000 }, () => undefined));
    await clock.advance(1500);
    expect(await lock.release()).toBe('lost');
    expect(await pods[1].tryAcquire('outlived')).toBeNull();
    await clock.advance(600);
    expect(await pods[1].tryAcquire('outlived')).not.toBeNull();
  });

  it.each(['one by one', 'at once'])(
    'ends with a call for several keys that gets only some, %s',
    async (how) => {
      const other = await pods[0].acquire(`${how} b`);
      const waitMs = how === 'at once' ? 0 : 100;
      const failed = pods[1].acquire([`${how} a`, `${how} b`], { waitMs, holdAtLeastMs: 60_000 });
      void clock.advance(200);
      await expect(failed).rejects.toThrow(LockWaitTimeoutError);
      await clock.advance(5);
      expect(await pods[0].tryAcquire(`${how} a`)).not.toBeNull();
      await other.release();
    },
  );

  it('is ended by a takeover and by force', async () => {
    for (const how of ['takeover', 'force']) {
      const lock = await pods[0].acquire(how, { holdAtLeastMs: 60_000 });
      const taking = pods[1].acquire(how, how === 'takeover' ? { onBusy: 'takeover', graceMs: 100 } : {});
      if (how === 'force') await pods[1].forceRelease(how);
      await clock.advance(200);
      expect(lock.validForMs).toBe(0);
      await (await taking).release();
    }
  });

  it('does not outlive the shutdown when the store is away', async () => {
    const world = new LockWorld();
    const pod = world.service();
    const lock = await pod.acquire('away', { holdAtLeastMs: 3_600_000 });
    world.cutNetwork();
    void lock.release();
    await world.clock.advance(1000);
    const closed = pod.close();
    await world.clock.advance(5000);
    await closed;
    expect(world.clock.pendingTimers).toBe(0);
  });
});
