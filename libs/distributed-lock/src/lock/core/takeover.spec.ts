import { beforeEach, describe, expect, it } from '@jest/globals';
import { eventsOf, typesOf } from '../../../../../test/support/events.js';
import { follow, type Followed } from '../../../../../test/support/lock-world.js';
import { world } from '../../../../../test/support/world-per-test.js';
import { memoryStore } from '../../memory/store.js';
import type { LockStore, LockStoreFactory, Notification } from '../../port/lock-store.js';
import { LockLostError, LockStoreError, LockWaitTimeoutError } from '../../port/lock.errors.js';
import { maxNoticeMs } from '../../port/timing.js';
import { storeThatCan } from '../../port/capabilities.js';
import { ManualClock } from '../../testing/manual-clock.js';
import type { CallOptions, Lock } from '../lock.js';
import { LockService } from '../lock.service.js';
import { forcedAfterMs } from './takeover.js';

const GRACE_MS = 400;
/** Of `FaultyStore`. */
const COMMAND_TIMEOUT_MS = 100;
const TAKEOVER: CallOptions = { onBusy: 'takeover', graceMs: GRACE_MS };
const OVER_MS = forcedAfterMs(GRACE_MS, COMMAND_TIMEOUT_MS);

let locks: LockService;
let second: LockService;
let third: LockService;

const startServices = (): void => {
  [locks, second, third] = [world.service({ application: 'shop' }), world.service(), world.service()];
};

async function ask(service: LockService, options: CallOptions = {}): Promise<Followed<Lock>> {
  const asked = follow(service.acquire('k', options));
  await world.clock.advance(5);
  return asked;
}

/** Work that ends with its lock's signal, after this many ms. */
function politeWork(ms: number): (lock: Lock) => Promise<string> {
  return (lock) =>
    new Promise((resolve) => {
      lock.signal.addEventListener('abort', () => world.clock.after(ms, () => resolve('ended')));
    });
}

const reasonOf = (lock: Lock) => lock.signal.reason as LockLostError;

describe("onBusy: 'takeover'", () => {
  beforeEach(startServices);

  it('acquires a free key as any call does, in one request', async () => {
    const lock = await world.take(locks, 'k', TAKEOVER);
    expect(lock.signal.aborted).toBe(false);
    expect(world.commands.map(({ kind }) => kind)).toEqual(['acquire']);
    await lock.release();
  });

  it.each([
    ['another process', () => second],
    ['its own process', () => locks],
  ])('aborts the signal of a holder in %s, which still holds and keeps its result', async (_, holderIn) => {
    const held = follow(holderIn().withLock('k', politeWork(100)));
    await world.clock.advance(5);
    const waiting = await ask(third, {});
    const taken = await ask(locks, { ...TAKEOVER, site: 'repair' });
    expect(taken.state).toBe('pending');
    await world.clock.advance(95);
    expect(held.value).toBe('ended');
    await world.clock.advance(20);
    // Ahead of the one that has waited longer.
    expect(taken.value.validForMs).toBeGreaterThan(0);
    expect(waiting.state).toBe('pending');
    await taken.value.release();
    await world.clock.advance(50);
    await waiting.value.release();
  });

  it('tells the holder who takes its lock over, and how long it may go on', async () => {
    const lock = await world.take(second, 'k');
    const listening = follow(new Promise((resolve) => lock.signal.addEventListener('abort', resolve)));
    const taken = await ask(locks, { ...TAKEOVER, site: 'repair' });
    expect(listening.state).toBe('resolved');
    expect(reasonOf(lock)).toBeInstanceOf(LockLostError);
    expect(reasonOf(lock)).toMatchObject({ reason: 'takeover', key: 'k' });
    expect(reasonOf(lock).message).toMatch(/shop on .+ \(repair\) takes it over, and leaves 400 ms/);
    lock.assertHeld();
    expect(lock.validForMs).toBeGreaterThan(0);
    expect(await lock.release()).toBe('released');
    await world.clock.advance(5);
    expect(taken.value.fencingToken).toBeGreaterThan(lock.fencingToken);
    await taken.value.release();
  });

  it('aborts a signal that is asked for only after the holder was told', async () => {
    const lock = await world.take(second, 'k');
    const taken = await ask(locks, TAKEOVER);
    expect(reasonOf(lock).reason).toBe('takeover');
    await lock.release();
    await world.clock.advance(5);
    await taken.value.release();
  });

  it('takes the lock after the grace from a holder that works on, under a larger token', async () => {
    const held = follow(second.withLock('k', politeWork(GRACE_MS + 100)));
    await world.clock.advance(5);
    const { fencingToken } = (await world.eye.inspect('k')) ?? {};
    const taken = await ask(locks, TAKEOVER);
    await world.clock.advance(GRACE_MS - 10);
    expect(taken.state).toBe('pending');
    await world.clock.advance(20);
    expect(taken.value.fencingToken).toBeGreaterThan(fencingToken as number);
    await world.clock.advance(200);
    expect(held.error).toMatchObject({ reason: 'takeover' });
    expect((held.error as Error).message).toContain('its grace of 400 ms is over');
    await taken.value.release();
  });

  it('frees by force, after the grace, the lock of a holder that hears nothing and does nothing', async () => {
    const faults = { notification: () => [] };
    const deaf = world.service({}, faults);
    const lock = await world.take(deaf, 'k');
    const events = eventsOf(locks);
    const taken = await ask(locks, TAKEOVER);
    await world.clock.advance(OVER_MS - 10);
    expect(taken.state).toBe('pending');
    await world.clock.advance(20);
    expect(taken.value.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(typesOf(events)).toEqual(['forced', 'acquired']);
    // Its next renewal tells it.
    await world.clock.advance(11_000);
    expect(reasonOf(lock)).toMatchObject({ reason: 'taken' });
    await taken.value.release();
  });

  it.each([0, 300, maxNoticeMs(COMMAND_TIMEOUT_MS) - 1])(
    'has the lock only when the holder, who is told after %i ms, does not believe in it any more',
    async (ms) => {
      const slow = world.service({}, { notification: ({ kind }) => (kind === 'takeover' ? [ms] : [0]) });
      const lock = await world.take(slow, 'k');
      const beliefs: number[] = [];
      const asked = follow(
        locks.withLock('k', TAKEOVER, () => {
          beliefs.push(lock.validForMs);
        }),
      );
      await world.clock.advance(2 * OVER_MS);
      expect(asked.state).toBe('resolved');
      expect(beliefs).toEqual([0]);
    },
  );

  it('ends with the grace for a holder that blocks its event loop, before any timer runs', async () => {
    const lock = await world.take(second, 'k');
    const taken = await ask(locks, TAKEOVER);
    world.clock.stall(GRACE_MS);
    expect(lock.validForMs).toBe(0);
    expect(() => lock.assertHeld()).toThrow('its grace of 400 ms is over');
    expect(await lock.release()).toBe('lost');
    await world.clock.advance(5);
    await taken.value.release();
  });

  it('is announced again to a holder that has missed it, with what is left of the grace', async () => {
    const graceMs = 1500;
    const isFirst = (it: Notification): boolean => it.kind === 'takeover' && it.graceMs === graceMs;
    const unlucky = world.service({}, { notification: (it) => (isFirst(it) ? [] : [0]) });
    const lock = await world.take(unlucky, 'k');
    const taken = await ask(locks, { ...TAKEOVER, graceMs });
    expect(lock.signal.aborted).toBe(false);
    await world.clock.advance(1100);
    expect(reasonOf(lock).message).toMatch(/leaves [45]\d\d ms/);
    await world.clock.advance(graceMs - 1100);
    expect(lock.validForMs).toBe(0);
    await world.clock.advance(5);
    await taken.value.release();
  });

  it('leaves the holder the grace of a notice that came late, when it is announced again', async () => {
    const graceMs = 2000;
    world.faults.notification = (notification) =>
      notification.kind === 'takeover' && notification.graceMs === graceMs ? [300] : undefined;
    const lock = await world.take(second, 'k');
    const taken = await ask(locks, { ...TAKEOVER, graceMs });
    await world.clock.advance(graceMs + 200);
    expect([taken.state, lock.signal.aborted]).toEqual(['pending', true]);
    lock.assertHeld();
    await world.clock.advance(200);
    await taken.value.release();
  });

  it('leaves the holder the shortest grace, where several calls take its lock over', async () => {
    const lock = await world.take(second, 'k');
    const first = await ask(locks, { ...TAKEOVER, graceMs: 5000 });
    const other = await ask(third, { ...TAKEOVER, site: 'another call' });
    await world.clock.advance(GRACE_MS - 10);
    lock.assertHeld();
    await world.clock.advance(10);
    expect(() => lock.assertHeld()).toThrow('(another call) has taken it over');
    await world.clock.advance(5);
    await first.value.release();
    await world.clock.advance(5);
    await other.value.release();
  });

  it('ends with the grace for a holder whose machine was suspended meanwhile', async () => {
    const lock = await world.take(second, 'k');
    const taken = await ask(locks, TAKEOVER);
    world.clock.suspend(GRACE_MS);
    expect(lock.validForMs).toBe(0);
    expect(() => lock.assertHeld()).toThrow('its grace of 400 ms is over');
    await world.clock.advance(5);
    await taken.value.release();
  });

  it('frees by force only the holder that it has found, because another may have come since', async () => {
    const clock = new ManualClock();
    const store = memoryStore();
    const forced: unknown[] = [];
    const watched: LockStoreFactory = {
      create(context) {
        const inner = storeThatCan(store.create(context), 'takeover');
        const force = inner.forceRelease.bind(inner);
        inner.forceRelease = (...args) => {
          forced.push(args);
          return force(...args);
        };
        return inner;
      },
    };
    const raw = store.create({ clock, keyPrefix: '', watchdogTimeoutMs: 30_000 });
    const claim = { kind: 'lock' } as const;
    await raw.acquire({
      key: 'k',
      owner: 'raw:1',
      claim,
      leaseMs: 30_000,
      mayWait: false,
      ticket: 0,
      tokens: 1,
    });
    const taker = new LockService({ store: watched, clock });
    const taking = follow(taker.acquire('k', TAKEOVER));
    await clock.advance(OVER_MS + 20);
    expect(forced).toEqual([['k', { owners: ['raw:1'] }]]);
    await taking.value.release();
    await Promise.all([taker.close(), raw.close()]);
  });

  it('ends the rest of a minimum hold after the grace: there is nobody to tell', async () => {
    const first = await world.take(second, 'k', { holdAtLeastMs: 60_000 });
    await first.release();
    const taken = await ask(locks, { ...TAKEOVER, waitMs: GRACE_MS + 50 });
    await world.clock.advance(GRACE_MS - 50);
    expect(taken.state).toBe('pending');
    await world.clock.advance(60);
    expect(taken.value.validForMs).toBeGreaterThan(0);
    await taken.value.release();
  });

  it('does not come to force before the store has the announcement', async () => {
    const clock = new ManualClock();
    const store = memoryStore();
    let failures = 2;
    const failing: LockStoreFactory = {
      create(context) {
        const inner = storeThatCan(store.create(context), 'takeover');
        const announce = inner.announceTakeover.bind(inner);
        inner.announceTakeover = (takeover) =>
          failures-- > 0 ? Promise.reject(new LockStoreError('away', 'k', 'unready')) : announce(takeover);
        return inner;
      },
    };
    const [holder, taker] = [new LockService({ store, clock }), new LockService({ store: failing, clock })];
    const lock = await holder.acquire('k');
    const events = eventsOf(taker);
    const beliefs: number[] = [];
    const taking = taker.withLock('k', TAKEOVER, () => void beliefs.push(lock.validForMs));
    await clock.advance(5000);
    await taking;
    expect(beliefs).toEqual([0]);
    expect(typesOf(events)).toEqual(['error', 'error', 'acquired', 'released']);
    await Promise.all([holder.close(), taker.close()]);
  });

  it('leaves each holder that it meets a grace of its own', async () => {
    const first = await world.take(second, 'k', { holdAtLeastMs: 5000 });
    const taken = await ask(locks, TAKEOVER);
    await world.clock.advance(100);
    // The rest of the minimum hold is held by another owner.
    await first.release();
    await world.clock.advance(OVER_MS - 50);
    expect(taken.state).toBe('pending');
    await world.clock.advance(1100);
    expect(taken.value.validForMs).toBeGreaterThan(0);
    await taken.value.release();
  });

  it('is served in the order of asking beside others, each of which takes over from the one before', async () => {
    const lock = await world.take(second, 'k');
    const [one, two] = [await ask(locks, TAKEOVER), await ask(third, { ...TAKEOVER, graceMs: 2000 })];
    await lock.release();
    await world.clock.advance(5);
    expect([one.state, two.state]).toEqual(['resolved', 'pending']);
    await world.clock.advance(1100);
    expect(reasonOf(one.value).message).toContain('leaves 2000 ms');
    await one.value.release();
    await world.clock.advance(5);
    await two.value.release();
  });

  it('makes no local hand-off to callers of the holder once it is told', async () => {
    const lock = await world.take(second, 'k');
    const behind = follow(second.acquire('k'));
    const taken = await ask(locks, TAKEOVER);
    await lock.release();
    await world.clock.advance(5);
    expect([taken.state, behind.state]).toEqual(['resolved', 'pending']);
    await taken.value.release();
    await world.clock.advance(5);
    await behind.value.release();
  });

  it('makes no local hand-off either if the holder was told before its grant was confirmed', async () => {
    const before = await world.take(second, 'k');
    const hasty = follow(locks.acquire('k'));
    const behind = await ask(locks);
    // The next recheck reserves tokens for both.
    await world.clock.advance(1100);
    world.faults.command = ({ kind }) => (kind === 'renew' ? { repliedAfterMs: 60 } : undefined);
    await before.release();
    await world.clock.advance(5);
    expect([hasty.state, behind.state]).toEqual(['resolved', 'pending']);
    const taken = await ask(third, TAKEOVER);
    await hasty.value.release();
    await world.clock.advance(5);
    expect([taken.state, behind.state]).toEqual(['resolved', 'pending']);
    await taken.value.release();
    await world.clock.advance(100);
    await behind.value.release();
  });

  it('does not concern the next grant of an owner that has lost the one which was being taken over', async () => {
    const first = await world.take(second, 'k');
    const waiter = await ask(locks, { waitMs: Infinity });
    // The notification of the waiter's grant comes late, so a renewal must confirm the grant first. Before the reply to it, the owner gets the
    // notice of the takeover. The notification that its lock was released by force is lost.
    world.faults.command = ({ kind }) => (kind === 'renew' ? { executedAfterMs: [50] } : undefined);
    world.faults.notification = ({ kind }) => (kind === 'granted' ? [300] : undefined);
    await first.release();
    await world.clock.advance(300);
    world.faults.notification = ({ kind }) => (kind === 'lost' ? [] : undefined);
    const taker = await ask(third, { ...TAKEOVER, waitMs: Infinity });
    await world.eye.forceRelease('k');
    await world.clock.advance(100);
    world.mendNetwork();
    expect([waiter.state, taker.state]).toEqual(['pending', 'resolved']);
    await taker.value.release();
    await world.clock.advance(OVER_MS);
    expect(waiter.value.signal.aborted).toBe(false);
    expect(await waiter.value.release()).toBe('released');
  });

  it('shares the lock that its own flow holds', async () => {
    await second.withLock('k', async (outer) => {
      await second.withLock('k', TAKEOVER, (inner) => {
        expect(inner.fencingToken).toBe(outer.fencingToken);
      });
      expect(outer.signal.aborted).toBe(false);
    });
  });

  it('leaves the holder told when the call gives up: its grace counts', async () => {
    const controller = new AbortController();
    const lock = await world.take(second, 'k');
    const taken = await ask(locks, { ...TAKEOVER, signal: controller.signal });
    controller.abort(new Error('changed my mind'));
    await world.clock.advance(GRACE_MS);
    expect(taken.error).toMatchObject({ message: 'changed my mind' });
    expect(() => lock.assertHeld()).toThrow(LockLostError);
    expect(await world.eye.inspect('k')).toBeNull();
  });

  it('takes several keys over, one after the other', async () => {
    const held = [await world.take(second, 'a'), await world.take(third, 'b')];
    const taken = follow(locks.acquire(['a', 'b'], TAKEOVER));
    await world.clock.advance(2 * OVER_MS + 50);
    expect(taken.value.keys).toEqual(['a', 'b']);
    expect(held.map((lock) => lock.validForMs)).toEqual([0, 0]);
    await taken.value.release();
  });

  it('aborts the signal of a lock of several keys when one of them is taken over', async () => {
    const lock = await world.take(second, ['a', 'k']);
    const { signal } = lock;
    const taken = await ask(locks, TAKEOVER);
    expect(signal.reason).toMatchObject({ reason: 'takeover', key: 'k' });
    lock.assertHeld();
    await lock.release();
    await world.clock.advance(5);
    await taken.value.release();
  });

  it('is told as events, in the process of the holder and in its own', async () => {
    const lock = await world.take(second, 'k');
    const events = eventsOf(second);
    const taken = await ask(locks, TAKEOVER);
    await world.clock.advance(OVER_MS);
    expect(events).toMatchObject([
      { type: 'contended' },
      { type: 'takeover', key: 'k', graceMs: GRACE_MS },
      { type: 'lost', error: { reason: 'takeover' } },
    ]);
    expect(await lock.release()).toBe('lost');
    await taken.value.release();
  });

  it('times out as any call does, if the store frees nothing', async () => {
    const lock = await world.take(second, 'k');
    world.lose(({ kind }) => kind === 'release');
    const asked = follow(locks.acquire('k', { ...TAKEOVER, waitMs: GRACE_MS + 50 }));
    await world.clock.advance(GRACE_MS + 200);
    expect(asked.error).toBeInstanceOf(LockWaitTimeoutError);
    world.mendNetwork();
    await lock.release();
  });
});

describe('a takeover with a store that cannot take over', () => {
  it('is refused at once', async () => {
    const memory = memoryStore();
    const store: LockStoreFactory = {
      create: (context) =>
        Object.assign(memory.create(context), { announceTakeover: undefined }) as LockStore,
    };
    const service = new LockService({ store, clock: new ManualClock() });
    const asked = service.acquire('k', { onBusy: 'takeover', graceMs: 100, waitMs: 60_000 });
    await expect(asked).rejects.toMatchObject({ code: 'LOCK_STORE', reason: 'refused' });
    await expect(asked).rejects.toThrow('The store memory cannot take a lock over.');
    await (await service.acquire('k')).release();
    await service.close();
  });
});

describe('the options of a takeover', () => {
  beforeEach(startServices);

  it.each<[string, CallOptions, string]>([
    ['fair', { fair: true }, 'it is not for fair'],
    ['permits', { permits: 2 }, 'it is not for permits (2)'],
    ['readers', { mode: 'shared' }, `it is not for mode: 'shared'`],
    ['a limit', { maxWaiting: 3 }, 'it is not for maxWaiting (3)'],
    ['a wait that is over before', { waitMs: 400 }, 'waitMs (400) must be longer than graceMs (400)'],
    ['no time', { graceMs: 0 }, 'graceMs must be a whole number of ms from 10'],
    ['another onBusy', { onBusy: 'throw' }, `give onBusy: 'takeover' with it`],
    ['no onBusy', { onBusy: undefined as never }, `give onBusy: 'takeover' with it`],
    ['an unknown onBusy', { onBusy: 'skip' as never }, `onBusy must be 'throw' or 'takeover'; it is skip`],
  ])('are refused beside %s', async (_, options, message) => {
    await expect(locks.acquire('k', { ...TAKEOVER, ...options })).rejects.toThrow(message);
  });

  it('are refused beside a wait that is over before the last of several holders has lost its lock', async () => {
    const options = { ...TAKEOVER, waitMs: 2 * GRACE_MS };
    await expect(locks.acquire(['k', 'l'], options)).rejects.toThrow(
      'waitMs (800) must be longer than 2 times graceMs (400): the call takes its 2 keys over one after the other',
    );
    const lock = await world.take(locks, ['k', 'l'], { ...options, waitMs: 2 * GRACE_MS + 1 });
    await lock.release();
  });

  it('leave a second to the holder by default', async () => {
    const lock = await world.take(second, 'k');
    const taken = await ask(locks, { onBusy: 'takeover' });
    expect(reasonOf(lock).message).toContain('leaves 1000 ms');
    await lock.release();
    await world.clock.advance(5);
    await taken.value.release();
  });

  it('leave out a maxWaiting of the service, because a takeover goes ahead of all that wait', async () => {
    const operators = world.service({ defaults: { maxWaiting: 0 } });
    const lock = await world.take(second, 'k');
    const taken = await ask(operators, { ...TAKEOVER, graceMs: 300 });
    expect(reasonOf(lock).message).toContain('leaves 300 ms');
    await lock.release();
    await world.clock.advance(5);
    await taken.value.release();
  });

  it('are refused as defaults of a service, where calls would have them that never meant it', () => {
    for (const defaults of [TAKEOVER, { onBusy: 'takeover' } as const, { graceMs: GRACE_MS }])
      expect(() => world.service({ defaults })).toThrow("defaults must not have onBusy: 'takeover'");
  });
});
