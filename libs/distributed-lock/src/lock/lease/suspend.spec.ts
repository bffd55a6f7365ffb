import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { eventsOf, typesOf } from '../../../../../test/support/events.js';
import { follow, LockWorld } from '../../../../../test/support/lock-world.js';
import { memoryStore } from '../../stores/memory/memory.store.js';
import { ManualClock } from '../../testing/manual-clock.js';
import { awakeClock, type Clock } from '../../time/clock.js';
import { LockLostError } from '../../port/lock.errors.js';
import { LockService } from '../lock.service.js';

const LEASE_MS = 30_000;

describe('a holder whose machine was suspended', () => {
  let world: LockWorld;

  beforeEach(() => {
    world = new LockWorld();
  });
  afterEach(() => world.close());

  const settle = () => world.clock.settle();
  /** Its monotonic clock has stood still. The others, and the store, have lived on. */
  const suspend = (ms: number) => world.clock.suspend(ms);

  it('does not believe in its lock before the store has answered', async () => {
    const service = world.service();
    const lock = await world.take(service, 'key');
    expect(lock.validForMs).toBeGreaterThan(0);
    suspend(LEASE_MS);
    expect(lock.validForMs).toBe(0);
    expect(() => lock.assertHeld()).toThrow(LockLostError);
    expect(lock.signal.aborted).toBe(false);
  });

  it('is not called one by what relies on being called under the lock', async () => {
    const service = world.service();
    const work = follow(
      service.withLock('key', () => {
        service.assertHeld('key');
        suspend(LEASE_MS);
        service.assertHeld('key');
      }),
    );
    await settle();
    expect(work.error).toMatchObject({ code: 'LOCK_LOST', key: 'key' });
  });

  it('believes in it again when the store says that it still holds: somebody has only set the clock', async () => {
    const service = world.service();
    const events = eventsOf(service);
    const lock = await world.take(service, 'key');
    suspend(3_600_000);
    expect(lock.validForMs).toBe(0);
    await settle();
    expect(lock.validForMs).toBeGreaterThan(LEASE_MS / 2);
    lock.assertHeld();
    expect(await follow(lock.release()).promise).toBe('released');
    expect(typesOf(events)).toEqual(['acquired', 'released']);
  });

  it('asks the store before it extends its lease or runs more work', async () => {
    const service = world.service();
    const lock = await world.take(service, 'key', { leaseMs: LEASE_MS });
    suspend(3_600_000);
    await follow(lock.extend(LEASE_MS)).promise;
    suspend(3_600_000);
    expect(await follow(lock.run(() => 'done')).promise).toBe('done');
    await lock.release();
  });

  it('learns at once that another has it', async () => {
    const service = world.service();
    const lock = await world.take(service, 'key');
    await world.eye.forceRelease('key');
    suspend(LEASE_MS);
    expect(lock.validForMs).toBe(0);
    await settle();
    expect(lock.signal.aborted).toBe(true);
    expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'taken' });
  });

  it.each([
    ['renewed', {}],
    ['fixed', { leaseMs: LEASE_MS }],
  ])('asks the store within a second by itself; its lease is %s', async (_, options) => {
    const service = world.service();
    const lock = await world.take(service, 'key', options);
    await world.clock.advance(1500);
    const before = world.sent('renew');
    suspend(LEASE_MS);
    await world.clock.advance(1000);
    expect(world.sent('renew')).toBe(before + 1);
    expect(lock.validForMs).toBeGreaterThan(0);
    await lock.release();
  });

  it('has its fixed lease for as long as before, and not for longer', async () => {
    const service = world.service();
    const lock = await world.take(service, 'key', { leaseMs: LEASE_MS });
    await world.clock.advance(10_000);
    const left = lock.validForMs;
    suspend(LEASE_MS);
    expect(lock.validForMs).toBe(0);
    await settle();
    expect(lock.validForMs).toBeGreaterThanOrEqual(left);
    expect(lock.validForMs).toBeLessThan(LEASE_MS - 10_000);
    expect((await world.eye.inspect('key'))?.remainingMs).toBeLessThanOrEqual(LEASE_MS - 10_000);
    await world.clock.advance(LEASE_MS - 10_000);
    expect(lock.signal.aborted).toBe(true);
  });

  it('whose work has ended is told by the store whether it held until then', async () => {
    const service = world.service();
    const [kept, lost] = [
      follow(service.withLock('kept', () => suspend(LEASE_MS))),
      follow(service.withLock('lost', () => world.eye.forceRelease('lost'))),
    ];
    await settle();
    await settle();
    await settle();
    expect(kept.state).toBe('resolved');
    expect(lost.error).toBeInstanceOf(LockLostError);
  });

  it('and whose store does not answer has lost it by the end of its work', async () => {
    const service = world.service();
    const work = follow(
      service.withLock('key', () => {
        world.cutNetwork();
        suspend(LEASE_MS);
      }),
    );
    await settle();
    expect(work.state).toBe('pending');
    await world.clock.advance(2000);
    expect(work.error).toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
    world.mendNetwork();
  });

  it('does not believe longer, nor shorter, when its clock is set back', async () => {
    const service = world.service();
    const lock = await world.take(service, 'key', { leaseMs: LEASE_MS });
    const left = lock.validForMs;
    suspend(-3_600_000);
    expect(lock.validForMs).toBe(left);
    await world.clock.advance(LEASE_MS);
    expect(lock.validForMs).toBe(0);
  });

  it('while the answer to its request was under way lets nobody in before the store has confirmed it', async () => {
    const service = world.service();
    world.faults.command = ({ kind }) =>
      kind === 'acquire' ? { executedAfterMs: [0], answeredAfterMs: 100 } : undefined;
    const asked = follow(service.acquire('key'));
    await world.clock.advance(50);
    suspend(2 * LEASE_MS);
    delete world.faults.command;
    world.lose(({ kind }) => kind === 'renew');
    await world.clock.advance(100);
    expect(asked.state).toBe('pending');
    world.mendNetwork();
    await world.clock.advance(2000);
    expect(asked.value.validForMs).toBeGreaterThan(0);
    await asked.value.release();
  });
});

describe('the clock of a machine', () => {
  const make = () => {
    const at = { monotonic: 1000, timeOfDay: 1_700_000_000_000, uptime: 5000 };
    const pass = (ms: number) => {
      at.monotonic += ms;
      at.timeOfDay += ms;
      at.uptime += ms;
    };
    const clock = awakeClock({
      monotonic: () => at.monotonic,
      timeOfDay: () => at.timeOfDay,
      uptime: () => Math.floor(at.uptime / 10) * 10,
    });
    return { at, pass, clock };
  };

  it('counts the time that the machine has slept', () => {
    const { at, pass, clock } = make();
    const before = clock.now();
    pass(500);
    at.timeOfDay += 60_000;
    at.uptime += 60_000;
    clock.timeOfDay();
    expect(clock.now() - before).toBeCloseTo(60_500, -2);
    pass(500);
    at.timeOfDay += 30_000;
    at.uptime += 30_000;
    clock.timeOfDay();
    expect(clock.now() - before).toBeCloseTo(91_000, -2);
  });

  it('counts a sleep whenever the clock was read before it, and however often', () => {
    const awakeMs = fc.integer({ min: 0, max: 3000 });
    const sleepMs = fc.integer({ min: 1100, max: 100_000 });
    const readings = fc.integer({ min: 0, max: 3 });
    fc.assert(
      fc.property(fc.array(fc.tuple(awakeMs, readings, sleepMs), { maxLength: 20 }), (steps) => {
        const { at, pass, clock } = make();
        const before = clock.now();
        let passedMs = 0;
        for (const [awake, times, slept] of steps) {
          pass(awake);
          for (let i = 0; i < times; i++) clock.timeOfDay();
          at.timeOfDay += slept;
          at.uptime += slept;
          clock.timeOfDay();
          passedMs += awake + slept;
          expect(Math.abs(clock.now() - before - passedMs)).toBeLessThanOrEqual(10);
        }
      }),
    );
  });

  it('is not moved by whoever sets the time of day', () => {
    const { at, pass, clock } = make();
    const before = clock.now();
    for (const ms of [3_600_000, -7_200_000, 3_600_000]) {
      at.timeOfDay += ms;
      pass(10);
      clock.timeOfDay();
    }
    expect(clock.now() - before).toBe(30);
  });

  it('never goes back', () => {
    const { at, clock } = make();
    at.timeOfDay += 60_000;
    at.uptime += 60_000;
    clock.timeOfDay();
    const after = clock.now();
    at.timeOfDay += 60_000;
    at.uptime = 0;
    clock.timeOfDay();
    expect(clock.now()).toBe(after);
  });
});

describe('a holder whose clock counts the sleep of the machine', () => {
  it.each([
    ['renewed', {}],
    ['fixed', { leaseMs: LEASE_MS }],
  ])('does not believe in its lock the first time that it is asked; its lease is %s', async (_, options) => {
    const manual = new ManualClock();
    let sleptMs = 0;
    const withSleep = () => manual.now() + sleptMs;
    const clock: Clock = {
      after: (ms, task) => manual.after(ms, task),
      interval: (ms) => manual.interval(ms),
      ...awakeClock({ monotonic: () => manual.now(), timeOfDay: withSleep, uptime: withSleep }),
    };
    const service = new LockService({ store: memoryStore(), clock, shutdownGraceMs: 0 });
    const lock = await service.acquire('key', options);
    sleptMs = LEASE_MS + 1000;
    expect(() => lock.assertHeld()).toThrow(LockLostError);
    await service.close();
  });
});
