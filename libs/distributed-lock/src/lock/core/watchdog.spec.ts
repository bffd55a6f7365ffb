import { describe, expect, it } from '@jest/globals';
import type { Subject } from 'rxjs';
import { eventsOf, typesOf } from '../../../../../test/support/events.js';
import { follow } from '../../../../../test/support/lock-world.js';
import { locks, other, world } from '../../../../../test/support/world-per-test.js';
import {
  LockConfigurationError,
  LockLostError,
  LockNotHeldError,
  LockStoreError,
} from '../../port/lock.errors.js';
import type { LockStore, LockStoreContext, Notification, Renewal } from '../../port/lock-store.js';
import { memoryStore } from '../../memory/store.js';
import { FaultyStore, type Faults } from '../../testing/faulty-store.js';
import { ManualClock } from '../../testing/manual-clock.js';
import type { Lock } from '../lock.js';
import { LockService } from '../lock.service.js';
import { CHECKED_TOGETHER } from './watchdog.js';

describe('the watchdog', () => {
  it('keeps a lock over many leases, and lets go of it with the release', async () => {
    const lock = await locks.acquire('k');
    const waiter = follow(other.acquire('k', { waitMs: Infinity }));
    await world.clock.advance(300_000);
    lock.assertHeld();
    expect(waiter.state).toBe('pending');
    expect(await lock.release()).toBe('released');
    await world.clock.advance(10);
    await waiter.value.release();
  });

  it('renews after about a third of the lease, no earlier and no more often', async () => {
    const lock = await locks.acquire('k');
    await world.clock.advance(8999);
    expect(world.sent('renew')).toBe(0);
    await world.clock.advance(1001);
    expect(world.sent('renew')).toBe(1);
    await world.clock.advance(80_000);
    expect(world.sent('renew')).toBeGreaterThanOrEqual(8);
    expect(world.sent('renew')).toBeLessThanOrEqual(10);
    await lock.release();
  });

  it.each<[how: string, renew: LockStore['renew']]>([
    [
      'throws',
      () => {
        throw new Error('broken');
      },
    ],
    ['answers too few renewals', () => Promise.resolve([])],
  ])('goes on when the store %s, and tells of it', async (_how, broken) => {
    const clock = new ManualClock();
    let isBroken = true;
    const store = {
      create(context: LockStoreContext) {
        const inner = memoryStore().create(context);
        const renew = inner.renew.bind(inner);
        return Object.assign(inner, {
          renew: (renewals: readonly Renewal[]) => (isBroken ? broken(renewals) : renew(renewals)),
        });
      },
    };
    const service = new LockService({ store, clock });
    const events = eventsOf(service);
    const lock = await service.acquire('k');
    await clock.advance(12_000);
    expect(typesOf(events)).toContain('error');
    isBroken = false;
    await clock.advance(100_000);
    lock.assertHeld();
    await lock.release();
    await service.close();
  });

  it('renews many locks with one timer', async () => {
    const held = await Promise.all(Array.from({ length: 200 }, (_, i) => locks.acquire(`k${i}`)));
    // Until then another one still looks for those who wait.
    await world.clock.advance(300);
    expect(world.clock.pendingTimers).toBe(1);
    await world.clock.advance(100_000);
    for (const lock of held) lock.assertHeld();
    await Promise.all(held.map((lock) => lock.release()));
  });

  it('has no timer left soon after the last lock is released', async () => {
    await locks.withLock('k', () => undefined);
    await world.clock.advance(1000);
    expect(world.clock.pendingTimers).toBe(0);
  });

  it('begins again after a time without any lock', async () => {
    await (await world.take(locks, 'k')).release();
    await world.clock.advance(60_000);
    const lock = await world.take(locks, 'k');
    await world.clock.advance(60_000);
    lock.assertHeld();
    expect(await lock.release()).toBe('released');
  });

  it('tells that renewal is suspended when there is no answer, and that it resumed', async () => {
    const events = eventsOf(locks);
    const lock = await locks.acquire('k');
    world.cutNetwork();
    await world.clock.advance(15_000);
    lock.assertHeld();
    expect(typesOf(events)).toEqual(['acquired', 'suspended']);
    world.mendNetwork();
    await world.clock.advance(1500);
    expect(typesOf(events)).toEqual(['acquired', 'suspended', 'resumed']);
    await world.clock.advance(60_000);
    lock.assertHeld();
    expect(await lock.release()).toBe('released');
  });

  it('tells that renewal resumed when the late reply to a recheck confirms a grant whose renewal has failed', async () => {
    const clock = new ManualClock();
    const memory = memoryStore();
    const faults: Faults = {};
    const store = {
      create(context: LockStoreContext) {
        const inner = new FaultyStore(memory, faults).create(context);
        const error = new LockStoreError('its session is in doubt', 'k', 'unknown');
        return Object.assign(inner, { renew: () => Promise.resolve([{ kind: 'unknown', error }]) });
      },
    };
    const before = new LockService({ store: memory, clock });
    const service = new LockService({ store, clock });
    const lock = await before.acquire('k');
    const waiter = follow(service.acquire('k', { waitMs: Infinity }));
    await clock.advance(980);
    faults.notification = ({ kind }) => (kind === 'granted' ? [40] : []);
    faults.command = ({ kind }) => (kind === 'acquire' ? { repliedAfterMs: 80 } : undefined);
    await lock.release();
    const events = eventsOf(service);
    await clock.advance(60);
    expect(typesOf(events)).toEqual(['suspended']);
    await clock.advance(60);
    expect(typesOf(events)).toEqual(['suspended', 'resumed', 'acquired']);
    await waiter.value.release();
    await Promise.all([before.close(), service.close()]);
  });

  it('gives the lock up at its deadline when there is no answer, before anybody else is granted', async () => {
    const events = eventsOf(locks);
    const lock = await locks.acquire('k');
    const { signal } = lock;
    const next = follow(other.acquire('k', { waitMs: Infinity }));
    let nextAt = 0;
    void next.promise.then(() => (nextAt = world.clock.now()));
    let lostAt = 0;
    signal.addEventListener('abort', () => (lostAt = world.clock.now()));
    world.lose(({ kind }) => kind === 'renew');
    await world.clock.advance(31_000);
    expect(typesOf(events)).toEqual(['acquired', 'contended', 'suspended', 'lost']);
    expect(signal.reason).toBeInstanceOf(LockLostError);
    expect(signal.reason).toMatchObject({ reason: 'expired', key: 'k', cause: { code: 'LOCK_STORE' } });
    expect((signal.reason as Error).message).toMatch(/no renewal succeeded since \d+ ms \(last error: /);
    expect(lostAt).toBeLessThan(30_000);
    expect(nextAt).toBeGreaterThanOrEqual(lostAt);
    expect(() => lock.assertHeld()).toThrow(LockLostError);
    await next.value.release();
  });

  it('finds at once that the lock is lost when the store says so', async () => {
    const lock = await locks.acquire('k');
    world.faults.notification = () => [];
    await world.eye.forceRelease('k');
    await world.clock.advance(11_000);
    expect(lock.signal.reason).toMatchObject({ reason: 'taken' });
    expect(await lock.release()).toBe('lost');
  });

  it('tells nothing more of a lock that is released while its renewal is under way, and does not repeat it', async () => {
    const events = eventsOf(locks);
    const lock = await locks.acquire('k');
    world.lose(({ kind }) => kind === 'renew');
    while (world.sent('renew') === 0) await world.clock.advance(10);
    expect(await follow(lock.release()).promise).toBe('released');
    await world.clock.advance(2000);
    expect(typesOf(events)).toEqual(['acquired', 'released']);
    expect(world.sent('renew')).toBe(1);
    expect(world.clock.pendingTimers).toBe(0);
  });

  it('does not take a late answer for a renewal that counts from now', async () => {
    const lock = await locks.acquire('k');
    world.faults.command = ({ kind }) => (kind === 'renew' ? { repliedAfterMs: 90 } : undefined);
    await world.clock.advance(10_000);
    const sentAt = world.clock.now();
    await world.clock.advance(90);
    expect(world.clock.now() + lock.validForMs).toBeLessThanOrEqual(sentAt + 30_000);
    await lock.release();
  });
});

describe('a store that may have lost notifications', () => {
  /** One service whose store says `gap`, and how many leases each of its batches has renewed. */
  const withGaps = () => {
    const clock = new ManualClock();
    const memory = memoryStore();
    const batches: number[] = [];
    const stores: LockStore[] = [];
    const store = {
      create(context: LockStoreContext) {
        const inner = new FaultyStore(memory, { notification: () => [] }).create(context);
        const renew = inner.renew.bind(inner);
        stores.push(inner);
        return Object.assign(inner, {
          renew: (renewals: readonly Renewal[]) => {
            batches.push(renewals.length);
            return renew(renewals);
          },
        });
      },
    };
    const service = new LockService({ store, clock });
    const eye = new LockService({ store: memory, clock });
    const gap = () => {
      for (const { notifications$ } of stores)
        (notifications$ as Subject<Notification>).next({ kind: 'gap' });
    };
    return { clock, service, eye, gap, batches };
  };

  it('has a holder find at once that its lock was taken', async () => {
    const { clock, service, eye, gap } = withGaps();
    const [taken, kept] = [await service.acquire('a'), await service.acquire('b')];
    const { signal } = taken;
    await eye.forceRelease('a');
    await clock.advance(1000);
    expect(signal.aborted).toBe(false);
    gap();
    await clock.settle();
    expect(signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'taken' });
    kept.assertHeld();
    expect(await kept.release()).toBe('released');
    await Promise.all([service.close(), eye.close()]);
  });

  it('renews no fixed lease, which an extend to more may follow', async () => {
    const { clock, service, eye, gap, batches } = withGaps();
    const lock = await service.acquire('k', { leaseMs: 20_000 });
    gap();
    await clock.settle();
    expect(batches).toEqual([]);
    await lock.release();
    await Promise.all([service.close(), eye.close()]);
  });

  it('has a waiter recheck at once', async () => {
    const { clock, service, eye, gap } = withGaps();
    const lock = await eye.acquire('k');
    const waiter = follow(service.acquire('k', { waitMs: Infinity }));
    await clock.advance(100);
    await lock.release();
    await clock.advance(10);
    expect(waiter.state).toBe('pending');
    gap();
    await clock.advance(10);
    await waiter.value.release();
    await Promise.all([service.close(), eye.close()]);
  });

  it('renews many locks some at a time, and once more after a second gap', async () => {
    const { clock, service, eye, gap, batches } = withGaps();
    const count = 2 * CHECKED_TOGETHER + 1;
    const held = await Promise.all(Array.from({ length: count }, (_, i) => service.acquire(`k${i}`)));
    gap();
    expect(batches).toEqual([CHECKED_TOGETHER]);
    // The leases of the first batch were asked for before this gap.
    gap();
    await clock.settle();
    expect(batches).toEqual([CHECKED_TOGETHER, CHECKED_TOGETHER, CHECKED_TOGETHER, 1]);
    await Promise.all(held.map((lock) => lock.release()));
    gap();
    await clock.settle();
    expect(batches).toHaveLength(4);
    await Promise.all([service.close(), eye.close()]);
  });
});

describe('a fixed lease', () => {
  it('is lost on time: the signal aborts, and nobody else is granted before the lease is over', async () => {
    const events = eventsOf(locks);
    const lock = await locks.acquire('k', { leaseMs: 1000 });
    const { signal } = lock;
    const next = follow(other.acquire('k', { waitMs: Infinity }));
    let nextAt = 0;
    void next.promise.then(() => (nextAt = world.clock.now()));
    await world.clock.advance(900);
    lock.assertHeld();
    expect(signal.aborted).toBe(false);
    await world.clock.advance(99);
    expect(signal.reason).toBeInstanceOf(LockLostError);
    expect(typesOf(events)).toEqual(['acquired', 'contended', 'lost']);
    expect(next.state).toBe('pending');
    await world.clock.advance(100);
    expect(nextAt).toBeGreaterThanOrEqual(1000);
    expect(nextAt).toBeLessThanOrEqual(1010);
    expect(world.sent('renew')).toBe(0);
    await next.value.release();
  });

  it('is set anew by extend(), to longer or to shorter', async () => {
    const lock = await locks.acquire('k', { leaseMs: 1000 });
    await lock.extend(5000);
    expect(lock.validForMs).toBeGreaterThan(4000);
    await world.clock.advance(4000);
    lock.assertHeld();
    await lock.extend(200);
    expect(lock.validForMs).toBeLessThan(200);
    await world.clock.advance(200);
    expect(() => lock.assertHeld()).toThrow(LockLostError);
    await expect(lock.extend(1000)).rejects.toBeInstanceOf(LockLostError);
  });

  it('ends by the signal when it was extended to less, also while the store has not answered', async () => {
    const lock = await locks.acquire('k', { leaseMs: 900 });
    world.faults.command = ({ kind }) => (kind === 'renew' ? { repliedAfterMs: 500 } : undefined);
    const extended = follow(lock.extend(200));
    await world.clock.advance(201);
    expect(lock.signal.aborted).toBe(true);
    await world.clock.advance(500);
    expect(extended.state).toBe('rejected');
  });

  it('cannot be extended after the release, nor to no length, nor under the watchdog', async () => {
    const lock = await locks.acquire('k', { leaseMs: 1000 });
    await expect(lock.extend(0)).rejects.toBeInstanceOf(LockConfigurationError);
    await lock.release();
    await expect(lock.extend(1000)).rejects.toBeInstanceOf(LockNotHeldError);
    const watched = await locks.acquire('k');
    await expect(watched.extend(1000)).rejects.toBeInstanceOf(LockConfigurationError);
    await watched.release();
  });

  it('that was taken meanwhile cannot be extended', async () => {
    const lock = await locks.acquire('k', { leaseMs: 1000 });
    world.faults.notification = () => [];
    await world.eye.forceRelease('k');
    await expect(lock.extend(1000)).rejects.toBeInstanceOf(LockLostError);
    expect(await world.eye.inspect('k')).toBeNull();
  });

  it('is not renewed by anybody after an extension that got no answer', async () => {
    const lock = await locks.acquire('k', { leaseMs: 2000 });
    world.lose(({ kind }) => kind === 'renew');
    const extended = follow(lock.extend(2000));
    await world.clock.advance(100);
    expect(extended.error).toBeInstanceOf(LockStoreError);
    world.mendNetwork();
    await world.clock.advance(10_000);
    expect(() => lock.assertHeld()).toThrow(LockLostError);
  });

  it('that came as a notification ends on time although its confirmation got no answer at first', async () => {
    const holder = await world.take(other, 'k');
    const waiter = follow(locks.acquire('k', { leaseMs: 2000 }));
    await world.clock.settle();
    world.lose(({ kind }) => kind === 'renew');
    await holder.release();
    await world.clock.advance(150);
    waiter.value.assertHeld();
    world.mendNetwork();
    await world.clock.advance(10_000);
    expect(() => waiter.value.assertHeld()).toThrow(LockLostError);
  });
});

describe('a grant that came as a notification', () => {
  it.each([
    ['watched', {}],
    ['fixed', { leaseMs: 20_000 }],
  ])('is confirmed again soon if the store has not answered; its lease is %s', async (_, options) => {
    const holder = await world.take(other, 'k');
    const waiter = follow(locks.acquire('k', options));
    await world.clock.settle();
    world.lose(({ kind }) => kind === 'renew');
    await holder.release();
    await world.clock.advance(50);
    waiter.value.assertHeld();
    expect(world.sent('renew')).toBe(1);
    world.mendNetwork();
    // The command times out after 100 ms, and is repeated 300 ms later at the latest.
    await world.clock.advance(400);
    expect(world.sent('renew')).toBe(2);
    await waiter.value.release();
  });
});

describe('a stall of the event loop', () => {
  const thrownBy = (call: () => void): unknown => {
    try {
      return call();
    } catch (error) {
      return error;
    }
  };

  /** A watched lock and a fixed one, whose leases have ended while the process was stuck. */
  const stuck = async () => {
    const held = [await locks.acquire('a'), await locks.acquire('b', { leaseMs: 20_000 })];
    for (const lock of held) lock.assertHeld();
    world.clock.stall(31_000);
    return held;
  };

  it.each<[first: string, ask: (lock: Lock) => unknown, found: unknown]>([
    ['validForMs', (lock) => lock.validForMs, 0],
    ['assertHeld()', (lock) => thrownBy(() => lock.assertHeld()), expect.any(LockLostError)],
    ['signal', (lock) => lock.signal.reason, expect.any(LockLostError)],
    ['release()', (lock) => lock.release(), 'lost'],
  ])('is found out by the first that asks: %s', async (_, ask, found) => {
    for (const lock of await stuck()) expect(await ask(lock)).toEqual(found);
  });

  it('aborts a signal that was taken before it, as soon as anybody asks', async () => {
    const lock = await locks.acquire('k');
    const { signal } = lock;
    world.clock.stall(31_000);
    expect(lock.validForMs).toBe(0);
    expect(signal.reason).toBeInstanceOf(LockLostError);
    await lock.release();
  });

  it('that is shorter than the lease does no harm', async () => {
    const lock = await locks.acquire('k');
    world.clock.stall(25_000);
    lock.assertHeld();
    await world.clock.advance(60_000);
    lock.assertHeld();
    expect(await lock.release()).toBe('released');
  });

  it('does not let a flow find its lost lock again', async () => {
    const lock = await locks.acquire('k');
    await lock.run(() => {
      world.clock.stall(31_000);
      expect(locks.current('k')).toBeUndefined();
      expect(() => locks.assertHeld('k')).toThrow(LockNotHeldError);
    });
    await lock.release();
  });
});
