import { describe, expect, it } from '@jest/globals';
import { eventsOf } from '../../../../../test/support/events.js';
import { follow } from '../../../../../test/support/lock-world.js';
import { locks, other, world } from '../../../../../test/support/world-per-test.js';
import { memoryStore } from '../../memory/store.js';
import type {
  AcquireReply,
  AcquireRequest,
  LockStoreFactory,
  ReleaseReply,
  ReleaseRequest,
} from '../../port/lock-store.js';
import type { Faults } from '../../testing/index.js';
import { LockService } from '../lock.service.js';
import { LockStoreError, LockWaitTimeoutError } from '../../port/lock.errors.js';

const ROUND_TRIP_MS = 10;

/** From now on each answer is under way that long. */
function slow(ms = ROUND_TRIP_MS): void {
  world.faults.command = () => ({ repliedAfterMs: ms });
}

/** Lets what was sent arrive, and all that follows at once. */
async function fast(): Promise<void> {
  world.mendNetwork();
  await world.clock.advance(200);
}

describe('a caller that does not wait', () => {
  it.each([[['a', 'b']], ['a']])(
    'is told of a store that is away, also while a sibling asks for %j',
    async (keys) => {
      world.cutNetwork();
      const sibling = follow(locks.acquire(keys, { waitMs: 1000 }));
      await world.clock.advance(10);
      const a = follow(locks.tryAcquire('a'));
      await world.clock.advance(100);
      expect(a.error).toBeInstanceOf(LockStoreError);
      await world.clock.advance(1000);
      expect(sibling.error).toBeInstanceOf(LockStoreError);
    },
  );

  it('is not refused by a reply to what a sibling had asked before it', async () => {
    const lock = await world.take(other, 'a');
    slow();
    const sibling = follow(locks.tryAcquire('a'));
    await world.clock.advance(1);
    world.mendNetwork();
    await lock.release();
    const asked = follow(locks.tryAcquire('a'));
    await fast();
    expect(sibling.value).toBeNull();
    expect(asked.value?.key).toBe('a');
    await asked.value?.release();
  });

  it('is told of a store that went away while siblings waited in its queue', async () => {
    const held = await world.take(other, 'a');
    const sibling = follow(locks.acquire('a', { waitMs: 3000 }));
    await world.clock.settle();
    expect(await locks.tryAcquire('a')).toBeNull();
    world.cutNetwork();
    await world.clock.advance(1500);
    const a = follow(locks.tryAcquire('a'));
    await world.clock.advance(200);
    expect(a.error).toBeInstanceOf(LockStoreError);
    world.mendNetwork();
    await held.release();
    await world.clock.advance(1000);
    await sibling.value.release();
  });

  it('is answered within one command, also between two attempts for a sibling', async () => {
    world.cutNetwork();
    const sibling = follow(locks.acquire('a', { waitMs: 1000 }));
    await world.clock.advance(101);
    const late = follow(locks.acquire('a', { waitMs: 10 }));
    const now = follow(locks.tryAcquire('a'));
    await world.clock.advance(100);
    expect([late.error, now.error]).toEqual([expect.any(LockStoreError), expect.any(LockStoreError)]);
    await world.clock.advance(1000);
    expect(sibling.error).toBeInstanceOf(LockStoreError);
  });

  it('is answered within one command, also between two renewals of a grant that came after its lease', async () => {
    const [held, busy] = [await world.take(other, 'a'), await world.take(other, 'b')];
    const faults: Faults = {};
    const slow = world.service({ watchdogTimeoutMs: 900 }, faults);
    const siblings = ['a', 'b'].map((key) => follow(slow.acquire(key, { waitMs: 5000 })));
    await world.clock.settle();
    faults.notification = () => [1000];
    await Promise.all([held.release(), busy.release()]);
    faults.command = () => ({ executedAfterMs: [], repliedAfterMs: 'never' });
    await world.clock.advance(1101);
    const now = follow(slow.tryAcquire('a'));
    const late = follow(slow.acquire('b', { waitMs: 10 }));
    await world.clock.advance(100);
    expect(now.error).toBeInstanceOf(LockStoreError);
    await world.clock.advance(10);
    expect(late.error).toBeInstanceOf(LockStoreError);
    await world.clock.advance(5000);
    for (const sibling of siblings) expect(sibling.error).toBeInstanceOf(LockStoreError);
  });

  it('is answered with the sibling that asked before it', async () => {
    slow();
    const [first, second] = [follow(locks.acquire('a')), follow(locks.tryAcquire('a'))];
    await world.clock.advance(ROUND_TRIP_MS);
    expect(second.value).toBeNull();
    expect(world.sent('acquire')).toBe(1);
    await fast();
    await first.value.release();
  });

  it('of forty keys, one of them held by its own process, costs no command', async () => {
    const keys = Array.from({ length: 40 }, (_, i) => `k${i}`);
    const mine = await world.take(locks, 'k7');
    const before = world.commands.length;
    expect(await locks.tryAcquire(keys)).toBeNull();
    expect(world.commands.length).toBe(before);
    await mine.release();
  });

  it.each([
    ['held by its own process', ['k']],
    ['held by its own process among several', ['j', 'k']],
  ])('is told by event when the key is %s', async (_, keys) => {
    const mine = await world.take(locks, 'k');
    const events = eventsOf(locks);
    const error = await locks.acquire(keys, { waitMs: 0 }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockWaitTimeoutError);
    expect(events).toEqual([
      { type: 'asked', call: expect.any(Number), key: 'k' },
      {
        type: 'abandoned',
        call: events[0] && 'call' in events[0] && events[0].call,
        key: 'k',
        waitedMs: 0,
        error,
      },
    ]);
    await mine.release();
  });
});

describe('a call that is refused while a copy of its request is still under way', () => {
  it('leaves the key free, whenever that copy is executed', async () => {
    const memory = memoryStore();
    /** Executes the copy, if that has not been done. */
    let execute = async (): Promise<unknown> => undefined;
    const store: LockStoreFactory = {
      create(context) {
        const inner = memory.create(context);
        const [acquire, release] = [inner.acquire.bind(inner), inner.release.bind(inner)];
        return Object.assign(inner, {
          acquire: async (request: AcquireRequest): Promise<AcquireReply> => {
            let executed: Promise<unknown> | undefined;
            execute = () => (executed ??= acquire(request));
            return { kind: 'busy', holder: 'another:1', remainingMs: 1000, mayComeLate: true };
          },
          // A store settles a release only when no copy of an acquire is left.
          release: async (request: ReleaseRequest): Promise<ReleaseReply> => {
            await execute();
            return release(request);
          },
        });
      },
    };
    const service = new LockService({ store, clock: world.clock, shutdownGraceMs: 0 });
    service.open();
    const eye = memory.create({ clock: world.clock, keyPrefix: '', watchdogTimeoutMs: 30_000 });
    expect(await service.tryAcquire('k')).toBeNull();
    await execute();
    await world.clock.settle();
    expect(await eye.inspect('k')).toBeNull();
    await Promise.all([service.close(), eye.close()]);
  });
});

describe('a caller that waits for less than a round trip', () => {
  it.each([0, 0.5, 1, 5, ROUND_TRIP_MS - 1])('of %d ms gets a free key all the same', async (waitMs) => {
    slow();
    const one = follow(locks.acquire('k', { waitMs }));
    const several = follow(locks.acquire(['a', 'b'], { waitMs }));
    await world.clock.advance(2 * ROUND_TRIP_MS);
    await fast();
    const outcomes = await Promise.all([one.value.release(), several.value.release()]);
    expect(outcomes).toEqual(['released', 'released']);
  });

  it('is told who holds a busy one, as soon as the store says so', async () => {
    const held = await world.take(other, 'k');
    slow();
    const asked = follow(locks.acquire('k', { waitMs: 2 }));
    await world.clock.advance(ROUND_TRIP_MS);
    expect(asked.error).toBeInstanceOf(LockWaitTimeoutError);
    expect(asked.error).toMatchObject({ waitMs: 2, holder: expect.any(String) });
    await fast();
    await held.release();
    expect(await world.eye.inspect('k')).toBeNull();
  });

  it('leaves in time when the store has answered already', async () => {
    const held = await world.take(other, 'k');
    const patient = follow(locks.acquire('k'));
    await world.clock.settle();
    slow(90);
    const asked = follow(locks.acquire('k', { waitMs: 5 }));
    await world.clock.advance(5);
    expect(asked.error).toBeInstanceOf(LockWaitTimeoutError);
    await fast();
    await held.release();
    await world.clock.settle();
    await patient.value.release();
  });
});
