import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { eventsOf, typesOf } from '../../../../../test/support/events.js';
import { follow } from '../../../../../test/support/lock-world.js';
import { locks, world } from '../../../../../test/support/world-per-test.js';
import { awakeClock, readClocks, systemClock } from '../../common/clock.js';
import { LockLostError } from '../../port/lock.errors.js';

const LEASE_MS = 30_000;

describe('a holder whose machine was suspended', () => {
  const settle = () => world.clock.settle();
  /** Its monotonic clock has stood still. The others, and the store, have lived on. */
  const suspend = (ms: number) => world.clock.suspend(ms);

  it('does not believe in its lock before the store has answered', async () => {
    const lock = await world.take(locks, 'key');
    expect(lock.validForMs).toBeGreaterThan(0);
    suspend(LEASE_MS);
    expect(lock.validForMs).toBe(0);
    expect(() => lock.assertHeld()).toThrow(LockLostError);
    expect(lock.signal.aborted).toBe(false);
  });

  it('is not called one by what relies on being called under the lock', async () => {
    const work = follow(
      locks.withLock('key', () => {
        locks.assertHeld('key');
        suspend(LEASE_MS);
        locks.assertHeld('key');
      }),
    );
    await settle();
    expect(work.error).toMatchObject({ code: 'LOCK_LOST', key: 'key' });
  });

  it('believes in it again when the store says that it still holds: somebody has only set the clock', async () => {
    const events = eventsOf(locks);
    const lock = await world.take(locks, 'key');
    suspend(3_600_000);
    expect(lock.validForMs).toBe(0);
    await settle();
    expect(lock.validForMs).toBeGreaterThan(LEASE_MS / 2);
    lock.assertHeld();
    expect(await follow(lock.release()).promise).toBe('released');
    expect(typesOf(events)).toEqual(['acquired', 'released']);
  });

  it('asks the store before it extends its lease or runs more work', async () => {
    const lock = await world.take(locks, 'key', { leaseMs: LEASE_MS });
    suspend(3_600_000);
    await follow(lock.extend(LEASE_MS)).promise;
    suspend(3_600_000);
    expect(await follow(lock.run(() => 'done')).promise).toBe('done');
    await lock.release();
  });

  it('learns at once that another has it', async () => {
    const lock = await world.take(locks, 'key');
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
    const lock = await world.take(locks, 'key', options);
    await world.clock.advance(1500);
    const before = world.sent('renew');
    suspend(LEASE_MS);
    await world.clock.advance(1000);
    expect(world.sent('renew')).toBe(before + 1);
    expect(lock.validForMs).toBeGreaterThan(0);
    await lock.release();
  });

  it('has its fixed lease for as long as before, and not for longer', async () => {
    const lock = await world.take(locks, 'key', { leaseMs: LEASE_MS });
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
    const [kept, lost] = [
      follow(locks.withLock('kept', () => suspend(LEASE_MS))),
      follow(locks.withLock('lost', () => world.eye.forceRelease('lost'))),
    ];
    await settle();
    await settle();
    await settle();
    expect(kept.state).toBe('resolved');
    expect(lost.error).toBeInstanceOf(LockLostError);
  });

  it('and whose store does not answer has lost it by the end of its work', async () => {
    const work = follow(
      locks.withLock('key', () => {
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
    const lock = await world.take(locks, 'key', { leaseMs: LEASE_MS });
    const left = lock.validForMs;
    suspend(-3_600_000);
    expect(lock.validForMs).toBe(left);
    await world.clock.advance(LEASE_MS);
    expect(lock.validForMs).toBe(0);
  });

  it('while the answer to its request was under way lets nobody in before the store has confirmed it', async () => {
    world.faults.command = ({ kind }) =>
      kind === 'acquire' ? { executedAfterMs: [0], repliedAfterMs: 100 } : undefined;
    const asked = follow(locks.acquire('key'));
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
  /** @param tickMs the least step of the uptime */
  const make = (tickMs = 10) => {
    const at = { monotonic: 1000, timeOfDay: 1_700_000_000_000, uptime: 5010 };
    const pass = (ms: number) => {
      at.monotonic += ms;
      at.timeOfDay += ms;
      at.uptime += ms;
    };
    const sleep = (ms: number, setByMs = 0) => {
      at.timeOfDay += ms + setByMs;
      at.uptime += ms;
    };
    const clock = awakeClock({
      monotonic: () => at.monotonic,
      timeOfDay: () => at.timeOfDay,
      uptime: () => Math.floor(at.uptime / tickMs) * tickMs,
    });
    return { at, pass, sleep, clock };
  };

  const awakeMs = fc.integer({ min: 0, max: 3000 });
  const sleepMs = fc.integer({ min: 150, max: 100_000 });
  const readings = fc.integer({ min: 0, max: 3 });

  it('counts a sleep with its first reading, however often and wherever it was read before', () => {
    const setByMs = fc.constantFrom(0, 0, 3_600_000, -1000, -17_000, -7_200_000);
    fc.assert(
      fc.property(fc.array(fc.tuple(awakeMs, readings, sleepMs, setByMs), { maxLength: 20 }), (steps) => {
        const { pass, sleep, clock } = make();
        const before = clock.now();
        let passedMs = 0;
        for (const [awake, times, slept, setBy] of steps) {
          pass(awake);
          for (let i = 0; i < times; i++) clock.now();
          const isHidden = Math.abs(slept + setBy) < 200;
          sleep(slept, isHidden ? 0 : setBy);
          passedMs += awake + slept;
          expect(Math.abs(clock.now() - before - passedMs)).toBeLessThanOrEqual(20);
        }
      }),
    );
  });

  it('counts a sleep that the time of day hides as a whole within a second', () => {
    const { pass, sleep, clock } = make();
    const before = clock.now();
    sleep(30_000, -30_000);
    pass(1000);
    expect(Math.abs(clock.now() - before - 31_000)).toBeLessThanOrEqual(20);
  });

  it('counts short sleeps once they are long enough together', () => {
    const { pass, sleep, clock } = make();
    const before = clock.now();
    for (let i = 0; i < 100; i++) {
      pass(50);
      sleep(90);
      clock.now();
    }
    expect(Math.abs(clock.now() - before - 14_000)).toBeLessThanOrEqual(110);
  });

  it('takes no tick of an uptime in seconds for a sleep', () => {
    const { at, pass, sleep } = make();
    const clock = awakeClock({
      monotonic: () => at.monotonic,
      timeOfDay: () => at.timeOfDay,
      uptime: () => Math.floor(at.uptime / 1000) * 1000,
    });
    const before = clock.now();
    for (let i = 0; i < 100; i++) {
      pass(333);
      expect(clock.now() - before).toBe(333 * (i + 1));
    }
    sleep(5000);
    expect(clock.now() - before - 33_300).toBeGreaterThan(3900);
  });

  it('counts a short sleep although the uptime was a whole second at first', () => {
    const { at, sleep } = make();
    at.uptime = 5000;
    const clock = awakeClock({
      monotonic: () => at.monotonic,
      timeOfDay: () => at.timeOfDay,
      uptime: () => at.uptime,
    });
    const before = clock.now();
    sleep(320);
    at.timeOfDay -= 760;
    expect(clock.now() - before).toBe(320);
  });

  it('is not moved by whoever sets the time of day', () => {
    const { at, pass, clock } = make();
    const before = clock.now();
    for (const ms of [3_600_000, -7_200_000, 3_600_000]) {
      at.timeOfDay += ms;
      pass(10);
      clock.now();
    }
    expect(clock.now() - before).toBe(30);
  });

  it('never goes back', () => {
    const { at, sleep, clock } = make();
    sleep(60_000);
    const after = clock.now();
    at.timeOfDay += 60_000;
    at.uptime = 0;
    expect(clock.now()).toBe(after);
  });
});

it('a clock that overrides a part of the machine’s is read by what it says itself', () => {
  const clock = { ...systemClock, now: () => 5, timeOfDay: () => 8, read: () => undefined };
  expect(readClocks(clock)).toEqual({ now: 5, wallClockOffset: 3 });
});
