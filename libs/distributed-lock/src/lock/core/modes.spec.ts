import { describe, expect, it } from '@jest/globals';
import { follow } from '../../../../../test/support/lock-world.js';
import { locks, other, world } from '../../../../../test/support/world-per-test.js';
import {
  LockConfigurationError,
  LockDeadlockError,
  LockLostError,
  LockStoreError,
  LockWaitTimeoutError,
} from '../../port/lock.errors.js';
import type { CallOptions, Lock } from '../lock.js';

const SHARED: CallOptions = { mode: 'shared' };
const EXCLUSIVE: CallOptions = { mode: 'exclusive' };

function queued(count: number, ask: () => Promise<Lock>) {
  return Array.from({ length: count }, () => follow(ask()));
}

describe('readers', () => {
  it('of one process hold together on one lease, with one command each way', async () => {
    const readers = await Promise.all([1, 2, 3].map(() => world.take(locks, 'k', SHARED)));
    expect(world.sent('acquire')).toBe(1);
    expect(new Set(readers.map((lock) => lock.fencingToken)).size).toBe(3);
    expect(readers.map((lock) => lock.mode)).toEqual(['shared', 'shared', 'shared']);
    await readers[0]?.release();
    await readers[1]?.release();
    expect(world.sent('release')).toBe(0);
    expect(await readers[2]?.release()).toBe('released');
    expect(world.sent('release')).toBe(1);
  });

  it('do not join those inside once a writer waits, and enter after it', async () => {
    const first = await world.take(locks, 'k', SHARED);
    const writer = follow(other.acquire('k', EXCLUSIVE));
    await world.clock.advance(10);
    const later = follow(locks.acquire('k', SHARED));
    await world.clock.advance(10);
    expect([writer.state, later.state]).toEqual(['pending', 'pending']);
    await first.release();
    await world.clock.advance(10);
    expect([writer.state, later.state]).toEqual(['resolved', 'pending']);
    await writer.value.release();
    await world.clock.advance(10);
    await later.value.release();
  });

  it('with fixed leases have leases of their own', async () => {
    const short = await world.take(locks, 'k', { ...SHARED, leaseMs: 100 });
    await world.clock.advance(50);
    const second = await world.take(locks, 'k', { ...SHARED, leaseMs: 100 });
    await world.clock.advance(60);
    expect([short.signal.aborted, second.signal.aborted]).toEqual([true, false]);
    await Promise.all([short.release(), second.release()]);
  });

  it('are all told when the lock is taken from them', async () => {
    const readers = await Promise.all([1, 2].map(() => world.take(locks, 'k', SHARED)));
    await world.eye.forceRelease('k');
    await world.clock.settle();
    for (const { signal } of readers) expect(signal.reason).toBeInstanceOf(LockLostError);
    await Promise.all(readers.map((lock) => lock.release()));
  });

  it('are told of a loss once each, also when one of them looks at another meanwhile', async () => {
    const locks = world.service({ watchdogTimeoutMs: 600 });
    const lost: number[] = [];
    locks.events$.subscribe((event) => event.type === 'lost' && lost.push(event.call));
    const [one, two] = [await world.take(locks, 'k', SHARED), await world.take(locks, 'k', SHARED)];
    one.signal.addEventListener('abort', () => two.validForMs);
    world.cutNetwork();
    await world.clock.advance(1000);
    expect(lost).toEqual([1, 2]);
    world.mendNetwork();
    await Promise.all([one.release(), two.release()]);
  });
});

describe('downgrade', () => {
  it('lets readers in at once and keeps the token', async () => {
    const lock = await world.take(locks, 'k', EXCLUSIVE);
    const { fencingToken } = lock;
    const readers = [follow(other.acquire('k', SHARED)), follow(locks.acquire('k', SHARED))];
    await world.clock.advance(10);
    await follow(lock.downgrade()).promise;
    await world.clock.advance(10);
    expect(readers.map(({ state }) => state)).toEqual(['resolved', 'resolved']);
    expect([lock.mode, lock.fencingToken]).toEqual(['shared', fencingToken]);
    lock.assertHeld();
    await lock.release();
    await Promise.all(readers.map(({ value }) => value.release()));
  });

  it('leaves callers of its process their place before those that come later', async () => {
    const lock = await world.take(locks, 'k');
    const mine = follow(locks.acquire('k', { waitMs: Infinity }));
    await world.clock.settle();
    await follow(lock.downgrade()).promise;
    await world.clock.settle();
    const later = follow(other.acquire('k', { waitMs: Infinity }));
    await world.clock.settle();
    await lock.release();
    await world.clock.advance(10);
    expect([mine.state, later.state]).toEqual(['resolved', 'pending']);
    await mine.value.release();
    await world.clock.advance(10);
    await later.value.release();
  });

  it('hands the lock on to no writer of its process while readers have it', async () => {
    const before = await world.take(locks, 'k');
    const writers = queued(2, () => locks.acquire('k', { waitMs: Infinity }));
    await world.clock.settle();
    await before.release();
    await world.clock.advance(10);
    const [first, second] = writers;
    const reader = follow(other.acquire('k', SHARED));
    await world.clock.settle();
    await follow(first!.value.downgrade()).promise;
    await world.clock.settle();
    await first!.value.release();
    await world.clock.settle();
    reader.value.assertHeld();
    expect(second!.state).toBe('pending');
    await reader.value.release();
    await world.clock.advance(10);
    await second!.value.release();
  });

  it('leaves a fixed lease as long as it was', async () => {
    const lock = await world.take(locks, 'k', { leaseMs: 1000 });
    await world.clock.advance(400);
    await lock.downgrade();
    expect(lock.validForMs).toBeLessThanOrEqual(600);
    expect(lock.validForMs).toBeGreaterThan(400);
    await lock.release();
  });

  it('that was not answered may be tried again', async () => {
    const lock = await world.take(locks, 'k', { mode: 'exclusive', leaseMs: 20_000 });
    world.lose(({ kind }) => kind === 'renew');
    const failed = follow(lock.downgrade());
    await world.clock.advance(200);
    expect(failed.error).toBeInstanceOf(LockStoreError);
    world.mendNetwork();
    await lock.downgrade();
    expect((await world.eye.inspect('k'))?.mode).toBe('shared');
    await lock.release();
  });

  it('is refused for permits', async () => {
    const lock = await world.take(locks, 'k', { permits: 2 });
    await expect(lock.downgrade()).rejects.toThrow(LockConfigurationError);
    await lock.release();
  });
});

describe('permits', () => {
  it.each([{ permits: 10 }, SHARED])(
    'of many that ask at once without waiting, as many are let in as there is room: %j',
    async (options) => {
      const asked = Array.from({ length: 12 }, () => follow(locks.tryAcquire('k', options)));
      await world.clock.settle();
      const got = asked.flatMap(({ value }) => value ?? []);
      expect(got).toHaveLength(options.permits ?? 12);
      await Promise.all(got.map((lock) => lock.release()));
    },
  );

  it('pass from one caller of a process to the next without a command', async () => {
    const first = await world.take(locks, 'k', { permits: 1 });
    const waiting = queued(3, () => locks.acquire('k', { permits: 1 }));
    await world.clock.settle();
    const before = world.commands.length;
    await first.release();
    await waiting[0]?.promise;
    await waiting[0]?.value.release();
    await world.clock.settle();
    expect(waiting.map(({ state }) => state)).toEqual(['resolved', 'resolved', 'pending']);
    expect(world.commands).toHaveLength(before);
    await waiting[1]?.value.release();
    await world.clock.settle();
    await waiting[2]?.value.release();
  });

  it.each([
    [{ permits: 0 }, 'permits must be a whole number from 1'],
    [{ permits: 1.5 }, 'permits must be a whole number'],
    [{ permits: 2, weight: 3 }, 'weight (3) must not be more than permits (2)'],
    [{ weight: 1 }, 'weight (1) is a share of permits'],
    [{ permits: 2, mode: 'shared' }, "permits (2) and mode ('shared') exclude each other"],
    [{ mode: 'write' }, "mode must be 'exclusive' or 'shared'"],
  ])('and modes that make no sense are refused: %j', async (options, message) => {
    await expect(locks.acquire('k', options as CallOptions)).rejects.toThrow(message);
  });

  it('of the defaults do not disturb a call that names a mode', async () => {
    const locks = world.service({ defaults: { permits: 2 } });
    const [one, two] = [await world.take(locks, 'k'), await world.take(locks, 'k')];
    expect(one.mode).toBe('permits');
    const reader = await world.take(locks, 'other', SHARED);
    expect(reader.mode).toBe('shared');
    await Promise.all([one, two, reader].map((lock) => lock.release()));
  });
});

describe('nested calls', () => {
  it.each([
    [{}, SHARED],
    [EXCLUSIVE, {}],
    [SHARED, SHARED],
    [{ permits: 3, weight: 2 }, { permits: 3 }],
  ])('share what their flow holds when it is enough: %j holds %j', async (outer, inner) => {
    await locks.withLock('k', outer as CallOptions, () =>
      locks.withLock('k', inner as CallOptions, (lock) => lock.assertHeld()),
    );
    expect(world.sent('acquire')).toBe(1);
  });

  it.each([
    [SHARED, EXCLUSIVE, 'held by this flow as shared: asking for exclusive would wait for itself'],
    [SHARED, {}, 'lock.downgrade() lets readers in'],
    [{}, { permits: 2 }, 'held by this flow as exclusive: asking for 1 of 2 permits'],
    [{ permits: 2 }, { permits: 2, weight: 2 }, 'held by this flow as 1 of 2 permits'],
  ])('that would wait for their own flow are told at once: %j holds %j', async (outer, inner, message) => {
    const work = locks.withLock('k', outer as CallOptions, () =>
      locks.withLock('k', inner as CallOptions, () => undefined),
    );
    await expect(work).rejects.toThrow(LockDeadlockError);
    await expect(work).rejects.toThrow(message);
  });

  it('find the lock as it is after a downgrade', async () => {
    await locks.withLock('k', EXCLUSIVE, async (lock) => {
      await lock.downgrade();
      await locks.withLock('k', SHARED, (inner) => expect(inner.mode).toBe('shared'));
      await expect(locks.acquire('k')).rejects.toThrow(LockDeadlockError);
    });
  });
});

describe('a cycle of waits', () => {
  /** Two flows that each hold one key; each then asks for the other's. */
  async function cross(first: CallOptions, second: CallOptions) {
    let enter = (): void => undefined;
    const bothInside = new Promise<void>((resolve) => (enter = resolve));
    const one = follow(
      locks.withLock('a', first, async () => {
        await bothInside;
        return locks.withLock('b', second, () => 'one');
      }),
    );
    const two = follow(
      locks.withLock('b', first, async () => {
        enter();
        await world.clock.settle();
        return locks.withLock('a', second, () => 'two');
      }),
    );
    await world.clock.settle();
    return { one, two };
  }

  it('is told to the flow that would close it, at once and with its path, and the other goes on', async () => {
    const { one, two } = await cross({}, {});
    await world.clock.settle();
    expect(two.error).toBeInstanceOf(LockDeadlockError);
    expect((two.error as LockDeadlockError).path).toEqual(['a', 'b']);
    expect((two.error as Error).message).toBe(
      'Acquiring "a" would wait for itself: its holder waits for "b", which this flow holds. Take the keys in one call, or in the same order everywhere. If the call that holds it did not make this one, a shared queue or pool has started this one in its async context: wrap the task, as in queue.add(AsyncResource.bind(task)).',
    );
    expect(one.value).toBe('one');
  });

  it('is none where one of them does not wait', async () => {
    const { one, two } = await cross({}, { waitMs: 0 });
    await world.clock.settle();
    expect(one.error).toBeInstanceOf(LockWaitTimeoutError);
    expect(two.value).toBe('two');
  });

  it('is none where readers meet', async () => {
    const { one, two } = await cross(SHARED, SHARED);
    await world.clock.settle();
    expect([one.value, two.value]).toEqual(['one', 'two']);
  });

  it('is found over more than two flows', async () => {
    const keys = ['a', 'b', 'c', 'd'];
    const inside: string[] = [];
    const flows = keys.map((key, i) =>
      follow(
        locks.withLock(key, async () => {
          inside.push(key);
          while (inside.length < keys.length) await new Promise<void>((go) => world.clock.after(1, go));
          return locks.withLock(keys[(i + 1) % keys.length] as string, () => key);
        }),
      ),
    );
    await world.clock.advance(20);
    const [failed, ...rest] = flows.filter(({ state }) => state === 'rejected');
    expect(rest).toEqual([]);
    expect(failed?.error).toHaveProperty('path', expect.arrayContaining(keys));
    expect(flows.filter(({ state }) => state === 'resolved')).toHaveLength(3);
  });

  it('is none once a wait is over, while its flow still holds its first key', async () => {
    const holder = follow(
      locks.withLock('a', async () => {
        await locks.withLock('b', () => undefined);
        await new Promise<void>((go) => world.clock.after(50, go));
        return 'a';
      }),
    );
    await world.clock.settle();
    const waiter = follow(locks.withLock('b', () => locks.withLock('a', () => 'b')));
    await world.clock.advance(100);
    expect([holder.value, waiter.value]).toEqual(['a', 'b']);
  });

  it('is none when a flow waits for one that only waits for something else', async () => {
    const other = await world.take(world.service(), 'far');
    const holder = follow(locks.withLock('a', () => locks.withLock('far', () => 'a')));
    await world.clock.settle();
    const waiter = follow(locks.withLock('b', () => locks.withLock('a', () => 'b')));
    await world.clock.advance(50);
    expect([holder.state, waiter.state]).toEqual(['pending', 'pending']);
    await other.release();
    await world.clock.advance(50);
    expect([holder.value, waiter.value]).toEqual(['a', 'b']);
  });
});
