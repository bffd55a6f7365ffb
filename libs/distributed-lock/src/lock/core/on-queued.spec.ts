import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, it } from '@jest/globals';
import { eventsOf } from '../../../../../test/support/events.js';
import { follow, type Followed } from '../../../../../test/support/lock-world.js';
import { locks, other, world } from '../../../../../test/support/world-per-test.js';
import type { LockWaitTimeoutError } from '../../port/lock.errors.js';
import type { CallOptions, Lock } from '../lock.js';
import type { LockService } from '../lock.service.js';

interface Asked {
  readonly lock: Followed<Lock>;
  /** All that `onQueued` got. */
  readonly places: readonly (readonly [position: number, key: string])[];
}

function ask(service: LockService, options: CallOptions = {}, keys: string | string[] = 'k'): Asked {
  const places: [number, string][] = [];
  const onQueued = (...place: [number, string]) => places.push(place);
  return { lock: follow(service.acquire(keys, { onQueued, ...options })), places };
}

async function asked(service: LockService, options: CallOptions = {}): Promise<Asked> {
  const call = ask(service, options);
  await world.clock.advance(5);
  return call;
}

function positionsOf(calls: readonly Asked[]): readonly (readonly number[])[] {
  return calls.map(({ places }) => places.map(([position]) => position));
}

/** Releases each call as soon as it has its lock. */
async function releaseAll(calls: readonly Asked[]): Promise<void> {
  let waiting = calls;
  for (let i = 0; waiting.length > 0 && i < 100; i++) {
    for (const { lock } of waiting) if (lock.state === 'resolved') await lock.value.release();
    waiting = waiting.filter(({ lock }) => lock.state === 'pending');
    await world.clock.advance(50);
  }
  expect(waiting).toEqual([]);
}

describe('onQueued', () => {
  it.each<CallOptions>([{}, { leaseMs: 5000 }, { mode: 'exclusive' }, { permits: 1 }])(
    'of four calls at once the first gets its lock unasked, and the others learn their places: %j',
    async (options) => {
      const calls = Array.from({ length: 4 }, () => ask(locks, options));
      await world.clock.advance(5);
      expect(positionsOf(calls)).toEqual([[], [1], [2], [3]]);
      await releaseAll(calls);
      expect(positionsOf(calls)).toEqual([[], [1], [2], [3]]);
    },
  );

  it('counts the fair callers of this process, of which the store knows only those that recheck', async () => {
    const held = await asked(locks, { fair: true });
    const calls = [await asked(locks, { fair: true }), await asked(locks, { fair: true })];
    await world.clock.advance(8000);
    calls.push(await asked(locks, { fair: true }));
    expect(positionsOf([held, ...calls])).toEqual([[], [1], [2], [3]]);
    await releaseAll([held, ...calls]);
  });

  it('counts the owners of other processes that wait in the store', async () => {
    const third = world.service();
    const held = await asked(locks);
    const calls = [await asked(other), await asked(third), await asked(third), await asked(other)];
    expect(positionsOf(calls)).toEqual([[1], [2], [3], [2]]);
    await releaseAll([held, ...calls]);
  });

  it('counts only the callers of this process while it has the lock', async () => {
    const held = await asked(locks);
    const calls = [await asked(other), await asked(locks), await asked(locks)];
    expect(positionsOf(calls)).toEqual([[1], [1], [2]]);
    await releaseAll([held, ...calls]);
  });

  it('forgets those ahead in the store as soon as this process has the lock', async () => {
    const third = world.service();
    const held = await asked(locks);
    const ahead = await asked(third);
    const call = await asked(other);
    await releaseAll([held, ahead]);
    const behind = await asked(other);
    expect(positionsOf([ahead, call, behind])).toEqual([[1], [2], [1]]);
    await releaseAll([call, behind]);
  });

  it('does not count those that have left', async () => {
    const held = await asked(locks);
    const [first, second] = [await asked(locks, { waitMs: 100 }), await asked(locks)];
    await world.clock.advance(200);
    expect(first.lock.state).toBe('rejected');
    const third = await asked(locks);
    expect(positionsOf([first, second, third])).toEqual([[1], [2], [2]]);
    await releaseAll([held, second, third]);
  });

  it('tells a takeover that it is the next one', async () => {
    const held = await asked(locks);
    const waiting = await asked(other);
    const takeover = await asked(other, { onBusy: 'takeover', graceMs: 50 });
    expect(positionsOf([waiting, takeover])).toEqual([[1], [1]]);
    await world.clock.advance(100);
    await releaseAll([takeover, waiting]);
    await held.lock.value.release();
  });

  it('is called for each key of a call that is not free', async () => {
    const held = [await world.take(locks, 'a'), await world.take(locks, 'c')];
    const several = ask(other, {}, ['a', 'b', 'c']);
    await world.clock.advance(5);
    for (const lock of held) {
      await lock.release();
      await world.clock.advance(5);
    }
    expect(several.places).toEqual([
      [1, 'a'],
      [1, 'c'],
    ]);
    await several.lock.value.release();
  });

  it('is not called for a call that does not wait, and none that is refused by maxWaiting', async () => {
    const held = await asked(locks);
    const calls = [await asked(locks, { waitMs: 0 }), await asked(other, { waitMs: 0 })];
    calls.push(await asked(other, { maxWaiting: 0 }), await asked(locks, { maxWaiting: 0 }));
    const accepted = [await asked(other, { maxWaiting: 1 }), await asked(locks, { maxWaiting: 2 })];
    accepted.push(await asked(world.service()));
    calls.push(await asked(other, { maxWaiting: 2 }));
    expect(positionsOf(calls)).toEqual([[], [], [], [], []]);
    expect(calls.map(({ lock }) => lock.state)).toEqual(Array(5).fill('rejected'));
    expect(positionsOf(accepted)).toEqual([[1], [1], [2]]);
    await releaseAll([held, ...accepted]);
  });

  it('is called by a store that is reachable again', async () => {
    const held = await asked(locks);
    world.cutNetwork();
    const call = await asked(other);
    await world.clock.advance(1000);
    expect(call.places).toEqual([]);
    world.mendNetwork();
    await world.clock.advance(1000);
    expect(call.places).toEqual([[1, 'k']]);
    await releaseAll([held, call]);
  });

  it('sends no request of its own', async () => {
    const count = async (options: CallOptions): Promise<number> => {
      const before = world.commands.length;
      const calls = [await asked(locks, options), await asked(other, options), await asked(other, options)];
      await releaseAll(calls);
      await world.clock.settle();
      return world.commands.length - before;
    };
    expect(await count({})).toBe(await count({ onQueued: undefined } as unknown as CallOptions));
  });

  it.each<[string, () => unknown]>([
    ['throws', () => JSON.parse('{') as unknown],
    ['rejects', () => Promise.reject(new Error('broken'))],
  ])('a function that %s hurts no call, and is an error event', async (_, onQueued) => {
    const events = eventsOf(other);
    const held = await asked(locks);
    const call = await asked(other, { onQueued });
    expect(events.filter(({ type }) => type === 'error')).toEqual([
      { type: 'error', key: undefined, during: 'listener', error: expect.any(Error) },
    ]);
    await releaseAll([held, call]);
  });

  it('may abort its call, release the lock or close the service', async () => {
    const held = await asked(locks);
    const controller = new AbortController();
    const { signal } = controller;
    const aborted = await asked(other, { signal, onQueued: () => controller.abort('enough') });
    expect(aborted.lock.error).toBe('enough');
    const freed = await asked(locks, { onQueued: () => held.lock.value.release() });
    await freed.lock.value.release();
    const again = await asked(locks);
    const closed = await asked(other, { onQueued: () => other.close() });
    expect(closed.lock.error).toMatchObject({ code: 'LOCK_SHUTDOWN' });
    await releaseAll([again]);
  });

  it('runs in the async context of its call', async () => {
    const storage = new AsyncLocalStorage<string>();
    const held = await asked(locks);
    const seen: unknown[] = [];
    const onQueued = () => seen.push(storage.getStore());
    const call = await storage.run('of the call', () => asked(other, { onQueued }));
    expect(seen).toEqual(['of the call']);
    await releaseAll([held, call]);
  });

  it('is also in the error of a call that has waited in vain', async () => {
    const held = await asked(locks);
    const calls = [await asked(other, { waitMs: 100 }), await asked(other, { waitMs: 100 })];
    const silent = follow(other.acquire('k', { waitMs: 100 }));
    await world.clock.advance(500);
    const errors = [...calls.map(({ lock }) => lock.error), silent.error] as LockWaitTimeoutError[];
    expect(errors.map(({ code, position }) => [code, position])).toEqual(
      [1, 2, undefined].map((position) => ['LOCK_WAIT_TIMEOUT', position]),
    );
    await releaseAll([held]);
  });
});
