import { getEventListeners } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { eventsOf, typesOf } from '../../../../../test/support/events.js';
import { follow } from '../../../../../test/support/lock-world.js';
import { locks, other, world } from '../../../../../test/support/world-per-test.js';
import { LockStoreError, LockWaitTimeoutError } from '../../port/lock.errors.js';
import type { Lock } from '../lock.js';
import type { LockService } from '../lock.service.js';
import type { CallOptions } from '../lock.js';

const pending = async () => (await world.eye.inspect('k'))?.pending ?? [];

describe('waiting', () => {
  it('with 0 asks once and enters no queue', async () => {
    const lock = await world.take(other, 'k');
    const asked = follow(locks.acquire('k', { waitMs: 0 }));
    await world.clock.settle();
    expect(asked.error).toBeInstanceOf(LockWaitTimeoutError);
    expect(asked.error).toMatchObject({ key: 'k', waitMs: 0, remainingMs: 30_000 });
    expect(await pending()).toEqual([]);
    await lock.release();
  });

  it('with 0 is not served before callers of the same process that wait', async () => {
    const lock = await world.take(other, 'k');
    const waiter = follow(locks.acquire('k'));
    await world.clock.settle();
    expect(await locks.tryAcquire('k')).toBeNull();
    await lock.release();
    await world.clock.settle();
    await waiter.value.release();
    const free = await locks.tryAcquire('k');
    await free?.release();
    expect(free).not.toBeNull();
  });

  it('ends for each of those who leave, also when a listener lets others leave meanwhile', async () => {
    const lock = await world.take(other, 'k');
    const leaving = new AbortController();
    const asked = [undefined, leaving.signal, undefined, undefined].map((signal) =>
      follow(locks.acquire('k', { waitMs: 2000, ...(signal && { signal }) })),
    );
    const told = locks.events$.subscribe(({ type }) => {
      if (type === 'abandoned') leaving.abort();
    });
    await world.clock.advance(2000);
    await world.clock.settle();
    told.unsubscribe();
    expect(asked.map(({ state }) => state)).toEqual(['rejected', 'rejected', 'rejected', 'rejected']);
    expect(asked[1]?.error).toBe(leaving.signal.reason);
    expect(await pending()).toEqual([]);
    await lock.release();
    await (await locks.acquire('k')).release();
  });

  it('ends after its time and not earlier, and says who holds the lock', async () => {
    const lock = await world.take(other, 'k');
    const waiter = follow(locks.acquire('k', { waitMs: 2000 }));
    await world.clock.advance(1999);
    expect(waiter.state).toBe('pending');
    await world.clock.advance(1);
    expect(waiter.error).toBeInstanceOf(LockWaitTimeoutError);
    expect((waiter.error as Error).message).toMatch(
      /^Could not acquire "k" within 2000 ms: held by \S+, whose lease runs for another \d+ ms\. Raise waitMs/,
    );
    expect(await pending()).toEqual([]);
    await lock.release();
  });

  it('says who holds the lock although the store had failed before this process was granted it', async () => {
    world.lose(({ kind }) => kind === 'acquire');
    const holder = follow(locks.acquire('k'));
    await world.clock.advance(150);
    world.mendNetwork();
    await world.clock.advance(200);
    const late = follow(locks.acquire('k', { waitMs: 100 }));
    await world.clock.advance(100);
    expect(late.error).toBeInstanceOf(LockWaitTimeoutError);
    expect(late.error).toMatchObject({ holder: (await world.eye.inspect('k'))?.holders[0] });
    await holder.value.release();
  });

  it('of tryAcquire is as long as it says, and then gives null', async () => {
    const lock = await world.take(other, 'k');
    const waiter = follow(locks.tryAcquire('k', { waitMs: 300 }));
    await world.clock.advance(299);
    expect(waiter.state).toBe('pending');
    await world.clock.advance(1);
    expect(waiter.value).toBeNull();
    await lock.release();
  });

  it.each([false, true])(
    'asks the store once a second at most, however many wait (fair: %s)',
    async (fair) => {
      const lock = await world.take(other, 'k');
      const waiters = Array.from({ length: 50 }, () =>
        follow(locks.acquire('k', { waitMs: Infinity, fair })),
      );
      await world.clock.settle();
      const before = world.sent('acquire');
      await world.clock.advance(10_000);
      expect(world.sent('acquire') - before).toBeLessThanOrEqual(10);
      const served = serveAll(waiters);
      await lock.release();
      await world.clock.advance(1000);
      expect(served).toHaveLength(50);
    },
  );

  it('is in order of asking within a process', async () => {
    const lock = await world.take(locks, 'k');
    const order: number[] = [];
    const all = [0, 1, 2, 3, 4].map((i) => locks.withLock('k', () => void order.push(i)));
    await lock.release();
    await world.clock.advance(100);
    await Promise.all(all);
    expect(order).toEqual([0, 1, 2, 3, 4]);
  });

  describe.each([
    ['at once', 0],
    ['for much longer than a place is kept', 20_000],
  ])('%s', (_, heldMs) => {
    it('is in order of asking across processes when it is fair', async () => {
      const third = world.service();
      const lock = await world.take(locks, 'k');
      const order: string[] = [];
      const leaving = new AbortController();
      const ask = (name: string, service: LockService, options: CallOptions) =>
        service.withLock('k', { fair: true, waitMs: Infinity, ...options }, () => {
          order.push(name);
        });
      const gone = follow(ask('b0', other, { signal: leaving.signal }));
      const callers = { a1: locks, b1: other, a2: locks, c1: third, b2: other, a3: locks };
      const asked: Promise<unknown>[] = [];
      for (const [name, service] of Object.entries(callers)) {
        asked.push(ask(name, service, {}));
        await world.clock.settle();
      }
      await world.clock.settle();
      await world.clock.advance(heldMs);
      leaving.abort();
      await world.clock.settle();
      expect(gone.state).toBe('rejected');
      await lock.release();
      await world.clock.advance(500);
      await Promise.all(asked);
      expect(order).toEqual(['a1', 'b1', 'a2', 'c1', 'b2', 'a3']);
    });
  });

  it('tells all fair callers of a process when the store is away, though only one of them looks', async () => {
    const lock = await world.take(other, 'k');
    const asked = [1, 2, 3].map(() => follow(locks.acquire('k', { fair: true, waitMs: 5000 })));
    await world.clock.advance(2000);
    world.cutNetwork();
    await world.clock.advance(3000);
    for (const { error } of asked) expect(error).toBeInstanceOf(LockStoreError);
    world.mendNetwork();
    await lock.release();
  });

  it('is over for all at once, with the store’s words, when the store refuses', async () => {
    const refusal = new LockStoreError('Redis refused: NOPERM', 'k', 'refused');
    const refusing = world.service();
    const lock = await world.take(other, 'k');
    const waiters = [1, 2].map(() => follow(refusing.acquire('k', { waitMs: Infinity })));
    await world.clock.settle();
    world.faults.command = () => {
      throw refusal;
    };
    await world.clock.advance(1100);
    delete world.faults.command;
    expect(waiters.map(({ error }) => error)).toEqual([refusal, refusal]);
    await lock.release();
  });
});

describe('a caller whose time was over before its timer could fire', () => {
  it('keeps its place when it began while a caller with less time was being announced', async () => {
    const lock = await world.take(other, 'k');
    world.faults.command = ({ kind }) => (kind === 'acquire' ? { repliedAfterMs: 20 } : undefined);
    const [hasty, patient] = [100, 10_000].map((waitMs) => follow(locks.acquire('k', { waitMs })));
    await world.clock.advance(30);
    const behind = follow(world.service().acquire('k', { waitMs: 10_000 }));
    await world.clock.advance(170);
    expect(hasty?.error).toBeInstanceOf(LockWaitTimeoutError);
    await lock.release();
    await world.clock.advance(30);
    expect([patient?.state, behind.state]).toEqual(['resolved', 'pending']);
    await patient?.value.release();
    await world.clock.advance(30);
    await behind.value.release();
  });

  it('gets a lock that has become free, and does not make its process ask in a loop', async () => {
    await world.take(locks, 'k', { leaseMs: 50 });
    const overdue = follow(locks.acquire('k', { fair: true, waitMs: 500 }));
    await world.clock.settle();
    world.clock.stall(1000);
    const next = follow(other.acquire('k', { waitMs: Infinity }));
    await world.clock.advance(10);
    expect(world.isSpinning).toBe(false);
    await overdue.value.release();
    await world.clock.advance(10);
    await next.value.release();
  });
});

describe('an abort', () => {
  it('leaves the queue and rejects with the reason of the signal', async () => {
    const lock = await world.take(other, 'k');
    const controller = new AbortController();
    const waiter = follow(locks.acquire('k', { signal: controller.signal, waitMs: Infinity }));
    await world.clock.settle();
    expect(await pending()).toHaveLength(1);
    const reason = new Error('the client has left');
    controller.abort(reason);
    await world.clock.settle();
    expect(waiter.error).toBe(reason);
    expect(await pending()).toEqual([]);
    await lock.release();
  });

  it('before the call asks for nothing', async () => {
    const asked = follow(locks.acquire('k', { signal: AbortSignal.abort(new Error('gone')) }));
    await world.clock.settle();
    expect(asked.error).toEqual(new Error('gone'));
    expect(world.commands).toEqual([]);
  });

  it('of the first caller of a process leaves the ticket to the next', async () => {
    const lock = await world.take(other, 'k');
    const controller = new AbortController();
    const first = follow(locks.acquire('k', { signal: controller.signal }));
    const second = follow(locks.acquire('k'));
    await world.clock.settle();
    const third = follow(world.service().acquire('k'));
    await world.clock.settle();
    controller.abort();
    await world.clock.settle();
    await lock.release();
    await world.clock.advance(10);
    expect([first.state, second.state, third.state]).toEqual(['rejected', 'resolved', 'pending']);
    await second.value.release();
    await world.clock.advance(10);
    await third.value.release();
  });

  it('in the moment of hand-off passes the lock on', async () => {
    const lock = await world.take(other, 'k');
    const controller = new AbortController();
    const aborted = follow(locks.acquire('k', { signal: controller.signal }));
    await world.clock.settle();
    const next = follow(world.service().acquire('k'));
    await world.clock.settle();
    world.faults.notification = () => [5];
    void lock.release();
    await world.clock.advance(2);
    controller.abort();
    await world.clock.advance(50);
    expect(aborted.state).toBe('rejected');
    await next.value.release();
  });

  it('after the grant does not take the lock away', async () => {
    const controller = new AbortController();
    const lock = await locks.acquire('k', { signal: controller.signal });
    controller.abort();
    lock.assertHeld();
    expect(lock.signal.aborted).toBe(false);
    expect(await lock.release()).toBe('released');
  });

  it('leaves no listener on a signal that lives longer', async () => {
    const { signal } = new AbortController();
    for (let i = 0; i < 3; i++) await locks.withLock('k', { signal }, () => undefined);
    const lock = await world.take(other, 'k');
    await expect(locks.acquire('k', { signal, waitMs: 0 })).rejects.toBeInstanceOf(LockWaitTimeoutError);
    await lock.release();
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });
});

describe('local hand-off', () => {
  it('passes the lock from caller to caller without a store call, each with a larger token', async () => {
    const first = await world.take(locks, 'k');
    const asked = Array.from({ length: 20 }, () => follow(locks.acquire('k')));
    await world.clock.settle();
    const tokens: number[] = [];
    await first.release();
    await world.clock.settle();
    const before = world.commands.length;
    for (const one of asked) {
      const lock = one.value;
      lock.assertHeld();
      tokens.push(lock.fencingToken);
      await handOn(lock);
    }
    expect(tokens).toEqual(tokens.toSorted((a, b) => a - b));
    expect(new Set(tokens).size).toBe(20);
    expect(world.commands.slice(before).map(({ kind }) => kind)).toEqual(['release']);
    expect(await world.eye.inspect('k')).toBeNull();
  });

  it('gives back the tokens that it did not use', async () => {
    const first = await world.take(locks, 'k');
    const asked = [1, 2].map(() => follow(locks.acquire('k')));
    await first.release();
    await world.clock.settle();
    for (const one of asked) await handOn(one.value);
    const next = await locks.acquire('k');
    expect(next.fencingToken).toBe((asked[1]?.value.fencingToken ?? 0) + 1);
    await next.release();
  });

  it.each([
    { holdMs: 0.05, callers: 70, what: 'three and a half milliseconds of short callers' },
    { holdMs: 0.5, callers: 16, what: 'sixteen callers' },
    { holdMs: 8, callers: 2, what: 'sixteen milliseconds' },
    { holdMs: 300, callers: 1, what: 'one long caller' },
  ])('gives way to other processes after $what, from the moment that they wait', async (each) => {
    const { holdMs, callers } = each;
    const busy = cycle(locks, { times: 500, holdMs });
    await world.clock.advance(5 * holdMs);
    const stranger = follow(other.acquire('k', { waitMs: Infinity }));
    await world.clock.settle();
    const before = busy.done;
    await world.clock.advance((callers + 1) * holdMs);
    expect(stranger.state).toBe('resolved');
    expect(busy.done - before).toBeGreaterThanOrEqual(callers);
    expect(busy.done - before).toBeLessThanOrEqual(callers + 1);
    await stranger.value.release();
    await world.clock.advance(600 * holdMs);
    expect(busy.done).toBe(500);
  });

  it('goes on as long as it likes when nobody else waits', async () => {
    const busy = cycle(locks, { times: 400, holdMs: 1 });
    await world.clock.advance(1500);
    expect(busy.done).toBe(400);
    expect(world.sent('acquire')).toBeLessThanOrEqual(3);
  });

  it('never happens for fair callers, nor between callers with different leases', async () => {
    const events = eventsOf(locks);
    const first = await world.take(locks, 'k', { fair: true });
    const others = [
      follow(locks.withLock('k', { fair: true }, () => undefined)),
      follow(locks.withLock('k', { leaseMs: 500 }, () => undefined)),
      follow(locks.withLock('k', { leaseMs: 500 }, () => undefined)),
      follow(locks.withLock('k', () => undefined)),
    ];
    await world.clock.settle();
    await first.release();
    await world.clock.advance(100);
    expect(others.map(({ state }) => state)).toEqual(['resolved', 'resolved', 'resolved', 'resolved']);
    const by = events.flatMap((event) => (event.type === 'acquired' ? [event.by] : []));
    expect(by).toEqual(['store', 'store', 'store', 'store', 'store']);
  });

  it('never happens with less than half of the lease left', async () => {
    const events = eventsOf(locks);
    const first = await world.take(locks, 'k');
    const [second, third] = [follow(locks.acquire('k')), follow(locks.acquire('k'))];
    await handOn(first);
    const lock = second.value;
    // The process was stuck: no renewal is overdue, as none was due before.
    world.clock.stall(16_000);
    await handOn(lock);
    await third.value.release();
    const by = events.flatMap((event) => (event.type === 'acquired' ? [event.by] : []));
    expect(by).toEqual(['store', 'store', 'store']);
  });

  it('never happens while a renewal is overdue', async () => {
    const events = eventsOf(locks);
    const first = await world.take(locks, 'k');
    const [second, third] = [follow(locks.acquire('k')), follow(locks.acquire('k', { waitMs: Infinity }))];
    await handOn(first);
    world.lose(({ kind }) => kind === 'renew');
    await world.clock.advance(10_500);
    expect(typesOf(events)).toContain('suspended');
    world.mendNetwork();
    await handOn(second.value);
    await third.value.release();
    const by = events.flatMap((event) => (event.type === 'acquired' ? [event.by] : []));
    expect(by).toEqual(['store', 'store', 'store']);
  });

  it('asks the store first for who waits, once its last reply is more than a second old', async () => {
    const first = await world.take(locks, 'k');
    const asked = [1, 2, 3].map(() => follow(locks.acquire('k', { waitMs: Infinity })));
    await handOn(first);
    const [second, third] = asked as [(typeof asked)[number], (typeof asked)[number]];
    const before = world.sent('renew');
    await world.clock.advance(900);
    await handOn(second.value);
    expect(world.sent('renew')).toBe(before);
    await world.clock.advance(200);
    await handOn(third.value);
    expect(world.sent('renew')).toBe(before + 1);
    await asked[2]?.value.release();
  });

  it('tells by event who was served by whom', async () => {
    const events = eventsOf(locks);
    const first = await world.take(locks, 'k');
    const asked = [1, 2].map(() => follow(locks.acquire('k')));
    await first.release();
    await world.clock.settle();
    for (const one of asked) await handOn(one.value);
    expect(typesOf(events)).toEqual([
      'acquired',
      'contended',
      'released',
      'acquired',
      'released',
      'acquired',
      'released',
    ]);
    const by = events.flatMap((event) => (event.type === 'acquired' ? [event.by] : []));
    expect(by).toEqual(['store', 'store', 'local']);
  });
});

/** Releases it, and lets the next caller get it. */
async function handOn(lock: Lock): Promise<void> {
  await lock.release();
  await world.clock.settle();
}

/** Keeps five callers of one process at the key, `times` times in all. */
function cycle(
  service: LockService,
  { times, holdMs }: { readonly times: number; readonly holdMs: number },
): { done: number } {
  const progress = { done: 0 };
  let started = 0;
  const caller = async (): Promise<void> => {
    while (started < times) {
      started += 1;
      await service.withLock('k', { waitMs: Infinity }, async () => {
        await new Promise<void>((resolve) => world.clock.after(holdMs, resolve));
      });
      progress.done += 1;
    }
  };
  for (let i = 0; i < 5; i++) void caller();
  return progress;
}

/** Releases each lock as soon as it is granted. */
function serveAll(waiters: readonly { readonly promise: Promise<Lock> }[]): Lock[] {
  const served: Lock[] = [];
  for (const { promise } of waiters) {
    void promise.then((lock) => {
      served.push(lock);
      return lock.release();
    });
  }
  return served;
}
