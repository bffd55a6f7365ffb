import { beforeEach, describe, expect, it } from '@jest/globals';
import { eventsOf, typesOf } from '../../../../../test/support/events.js';
import { follow, type Followed } from '../../../../../test/support/lock-world.js';
import { locks, other, world } from '../../../../../test/support/world-per-test.js';
import { LockStoreError, LockWaitTimeoutError } from '../../port/lock.errors.js';
import type { CallOptions, Lock } from '../lock.js';
import type { LockService } from '../lock.service.js';

let third: LockService;

/** Calls in the same moment, each with this option. */
function burst(service: LockService, calls: number, options: CallOptions): Followed<Lock>[] {
  return Array.from({ length: calls }, () => follow(service.acquire('k', options)));
}

async function call(service: LockService, options: CallOptions): Promise<Followed<Lock>> {
  const asked = follow(service.acquire('k', options));
  await world.clock.advance(2);
  return asked;
}

/** `waits`, `holds`, or by how many waiting ones it was refused. */
function fate(asked: Followed<Lock>): string | number | undefined {
  if (asked.state === 'pending') return 'waits';
  if (asked.state === 'resolved') return 'holds';
  return (asked.error as LockWaitTimeoutError).waiting;
}

async function releaseAll(...asked: Followed<Lock>[]): Promise<void> {
  for (let left = asked.length; left > 0; left--) {
    for (const { state, value } of asked.filter((it) => it.state === 'resolved')) {
      if (state === 'resolved') await value.release();
    }
    await world.clock.advance(50);
  }
}

describe('maxWaiting', () => {
  beforeEach(() => {
    third = world.service();
  });

  it.each<CallOptions>([{}, { leaseMs: 5000 }, { fair: true }, { mode: 'exclusive' }, { permits: 1 }])(
    'of ten calls at once one holds, five wait and four are refused: %j',
    async (options) => {
      const calls = burst(locks, 10, { ...options, maxWaiting: 5 });
      await world.clock.advance(5);
      expect(calls.map(fate)).toEqual(['holds', ...Array(5).fill('waits'), 5, 5, 5, 5]);
      await releaseAll(...calls);
      expect(calls.slice(0, 6).map(fate)).toEqual(Array(6).fill('holds'));
      expect(await world.eye.inspect('k')).toBeNull();
    },
  );

  it('lets all readers in that need not wait', async () => {
    const calls = burst(locks, 5, { mode: 'shared', maxWaiting: 1 });
    await world.clock.advance(5);
    expect(calls.map(fate)).toEqual(Array(5).fill('holds'));
    const writers = [
      await call(other, { mode: 'exclusive', maxWaiting: 1 }),
      await call(other, { mode: 'exclusive', maxWaiting: 1 }),
      await call(locks, { mode: 'shared', maxWaiting: 1 }),
    ];
    expect(writers.map(fate)).toEqual(['waits', 1, 1]);
    await releaseAll(...calls);
    await releaseAll(...writers);
  });

  it('says how many wait, which key and what to do, and is not busy for longer', async () => {
    const lock = await world.take(locks, 'k');
    const waiter = follow(other.acquire('k'));
    await world.clock.settle();
    const events = eventsOf(other);
    const { error } = await call(other, { maxWaiting: 1, waitMs: 60_000 });
    expect(error).toBeInstanceOf(LockWaitTimeoutError);
    expect(error).toMatchObject({ code: 'LOCK_WAIT_TIMEOUT', key: 'k', waiting: 1, waitMs: 60_000 });
    expect(String(error)).toMatch(
      /^LockWaitTimeoutError: "k" is not free: held by \S+, whose lease runs for another \d+ ms\. 1 wait for it already, and maxWaiting allows no more\. Try again later, or raise maxWaiting\.$/,
    );
    expect(typesOf(events)).toEqual(['abandoned']);
    await lock.release();
    await world.clock.settle();
    expect(fate(waiter)).toBe('holds');
    await waiter.value.release();
  });

  it('lets a call be null that tries', async () => {
    const lock = await world.take(locks, 'k');
    expect(await locks.tryAcquire('k', { waitMs: 1000, maxWaiting: 0 })).toBeNull();
    await lock.release();
  });

  it('with 0 gives a free key, and never waits', async () => {
    const lock = await world.take(locks, 'k', { maxWaiting: 0 });
    expect(fate(await call(locks, { maxWaiting: 0 }))).toBe(0);
    expect(fate(await call(other, { maxWaiting: 0 }))).toBe(0);
    await lock.release();
  });

  it('counts the owners of other processes, also for calls of the process that holds', async () => {
    const lock = await world.take(locks, 'k');
    const waiter = await call(other, {});
    expect(fate(await call(third, { maxWaiting: 1 }))).toBe(1);
    expect(fate(await call(locks, { maxWaiting: 1 }))).toBe(1);
    const more = [await call(locks, { maxWaiting: 2 }), await call(third, { maxWaiting: 2 })];
    expect(more.map(fate)).toEqual(['waits', 'waits']);
    await lock.release();
    await world.clock.advance(100);
    await releaseAll(waiter, ...more);
    expect([waiter, ...more].map(fate)).toEqual(Array(3).fill('holds'));
  });

  it('refuses nobody who waits already, whoever comes', async () => {
    const lock = await world.take(locks, 'k');
    const early = await call(other, { maxWaiting: 1 });
    const later = [await call(third, {}), await call(locks, {}), await call(other, {})];
    await world.clock.advance(5000);
    expect(fate(early)).toBe('waits');
    await lock.release();
    await releaseAll(early, ...later);
    expect([early, ...later].map(fate)).toEqual(Array(4).fill('holds'));
  });

  it('refuses nobody because the store is away', async () => {
    world.cutNetwork();
    const calls = burst(locks, 3, { maxWaiting: 1, waitMs: 1000 });
    await world.clock.advance(1500);
    for (const { error } of calls) expect(error).toBeInstanceOf(LockStoreError);
    world.mendNetwork();
  });

  it('costs a free key no request, and callers behind one of their process neither', async () => {
    const calls = burst(locks, 100, { maxWaiting: 1000 });
    await world.clock.advance(5);
    expect(world.commands.map(({ kind }) => kind)).toEqual(['acquire']);
    await releaseAll(...calls);
  });

  it('is an option of the module, too', async () => {
    const limited = world.service({ defaults: { maxWaiting: 1 } });
    const calls = burst(limited, 3, {});
    await world.clock.advance(5);
    expect(calls.map(fate)).toEqual(['holds', 'waits', 1]);
    await releaseAll(...calls);
  });

  it.each([-1, 1.5, NaN, '3'])('refuses %p as a number', async (maxWaiting) => {
    await expect(locks.acquire('k', { maxWaiting } as CallOptions)).rejects.toThrow(
      /^acquire: maxWaiting must be a whole number, 0 or more \(Infinity allowed\); it is /,
    );
  });
});
