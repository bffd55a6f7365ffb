import { describe, expect, it } from '@jest/globals';
import { eventsOf, typesOf } from '../../../../test/support/events.js';
import { follow } from '../../../../test/support/lock-world.js';
import { locks, other, world } from '../../../../test/support/world-per-test.js';
import {
  LockConfigurationError,
  LockKeyError,
  LockLostError,
  LockNotHeldError,
  LockStoreError,
  LockWaitTimeoutError,
} from '../port/lock.errors.js';
import { memoryStore } from '../memory/store.js';
import type { HeldLock } from './core/held-lock.js';
import { LockService } from './lock.service.js';
import type { LockStoreContext } from '../port/lock-store.js';
import type { Lock } from './lock.js';
import { holdsOfFlow } from './core/async-context.js';

describe('withLock', () => {
  it('costs two commands: one acquire, one end', async () => {
    await locks.withLock('k', () => undefined);
    expect(world.commands.map(({ kind }) => kind)).toEqual(['acquire', 'release']);
  });

  it('gives the lock back when the work throws, now or later', async () => {
    await expect(
      locks.withLock('k', () => {
        throw new Error('at once');
      }),
    ).rejects.toThrow('at once');
    await expect(locks.withLock('k', () => Promise.reject(new Error('later')))).rejects.toThrow('later');
    await world.clock.settle();
    expect(await world.eye.inspect('k')).toBeNull();
  });

  it('rejects with the loss when the work succeeds without the lock, unless that is to be ignored', async () => {
    const outlive = async (lock: Lock) => {
      await new Promise<void>((resolve) => world.clock.after(200, resolve));
      return lock.signal.aborted;
    };
    const strict = follow(locks.withLock('a', { leaseMs: 100 }, outlive));
    const lenient = follow(locks.withLock('b', { leaseMs: 100, onLost: 'ignore' }, outlive));
    await world.clock.advance(300);
    expect(strict.error).toBeInstanceOf(LockLostError);
    expect(lenient.value).toBe(true);
  });

  it.each([
    ['result', () => 'my own'],
    ['error', () => Promise.reject(new Error('my own'))],
  ])('lets the %s of the work through even if the release fails', async (_, end) => {
    const locks = world.service({ watchdogTimeoutMs: 300 });
    const events = eventsOf(locks);
    const work = locks.withLock('k', () => {
      world.cutNetwork();
      return end();
    });
    const ended = follow(work.catch((error: Error) => error.message));
    await world.clock.advance(5000);
    expect(ended.value).toBe('my own');
    expect(typesOf(events)).toEqual(['acquired', 'released', 'error']);
    world.mendNetwork();
  });
});

describe('a flow that starts its next run from within its lock', () => {
  it('keeps nothing of the runs before', async () => {
    const kept: number[] = [];
    const run = async (left: number): Promise<void> => {
      const lock = await locks.acquire('job');
      await lock.run(async () => {
        kept.push(holdsOfFlow(locks['scope']).length);
        await lock.release();
        if (left > 1) await run(left - 1);
      });
    };
    await run(5);
    expect(kept).toEqual([1, 1, 1, 1, 1]);
  });
});

describe('a nested call for a key that the flow holds', () => {
  it('makes no store call and has the same token', async () => {
    await locks.withLock('k', async (outer) => {
      const before = world.commands.length;
      await locks.withLock('k', async (inner) => {
        expect(inner.fencingToken).toBe(outer.fencingToken);
        await locks.withLock('k', { waitMs: 0 }, () => undefined);
      });
      expect(world.commands).toHaveLength(before);
      outer.assertHeld();
    });
  });

  it('ends only its own share: the lock goes back with the last one', async () => {
    const lock = await locks.acquire('k');
    const inner = await lock.run(() => locks.acquire('k'));
    expect(await lock.release()).toBe('released');
    expect(() => lock.assertHeld()).toThrow(LockNotHeldError);
    inner.assertHeld();
    expect(await world.eye.inspect('k')).not.toBeNull();
    expect(await inner.release()).toBe('released');
    expect(await world.eye.inspect('k')).toBeNull();
  });

  it('is found only inside run() when the lock was acquired by hand', async () => {
    const lock = await locks.acquire('k');
    expect(locks.current('k')).toBeUndefined();
    expect(await locks.tryAcquire('k')).toBeNull();
    await lock.run(() => expect(locks.current('k')).toBe(lock));
    expect(locks.current('k')).toBeUndefined();
    await lock.release();
  });

  it('finds nothing once the lock is released, in whatever the flow has left running', async () => {
    let proceed = (): void => undefined;
    const released = new Promise<void>((resolve) => (proceed = resolve));
    let leftRunning: Promise<string> | undefined;
    await locks.withLock('k', () => {
      leftRunning = released.then(() => locks.withLock('k', () => 'mine'));
    });
    const stranger = await world.take(other, 'k');
    proceed();
    const late = follow(leftRunning as Promise<string>);
    await world.clock.advance(100);
    expect(late.state).toBe('pending');
    await stranger.release();
    await world.clock.advance(100);
    expect(late.value).toBe('mine');
  });

  it('is shared by the branches of a Promise.all, which cannot release it under each other', async () => {
    const pause = (ms: number) => new Promise<void>((resolve) => world.clock.after(ms, resolve));
    const branch = (ms: number) =>
      locks.withLock('k', async (lock) => {
        await pause(ms);
        lock.assertHeld();
        return lock.fencingToken;
      });
    const both = follow(locks.withLock('k', () => Promise.all([branch(10), branch(50), branch(90)])));
    await world.clock.advance(100);
    expect(new Set(both.value).size).toBe(1);
    expect(world.sent('acquire')).toBe(1);
    expect(world.sent('release')).toBe(1);
  });

  it('keeps the lock for a branch that outlives the outer call', async () => {
    let branch: Promise<unknown> | undefined;
    await locks.withLock('k', () => {
      branch = locks.withLock('k', () => new Promise<void>((resolve) => world.clock.after(100, resolve)));
    });
    const next = follow(locks.acquire('k'));
    await world.clock.advance(50);
    expect(next.state).toBe('pending');
    await world.clock.advance(60);
    await branch;
    await next.value.release();
  });

  it('of another service is another lock', async () => {
    const locks = world.service({ keyPrefix: 'a:' });
    const others = world.service({ keyPrefix: 'b:' });
    await locks.withLock('k', async () => {
      expect(others.current('k')).toBeUndefined();
      await others.withLock('k', (lock) => lock.assertHeld());
    });
    expect(world.sent('acquire')).toBe(2);
  });

  it('tells whether the flow holds a key', async () => {
    expect(() => locks.assertHeld('k')).toThrow(LockNotHeldError);
    await locks.withLock('k', (lock) => {
      expect(locks.assertHeld('k')).toBe(lock);
      expect(locks.current()).toBe(lock);
      expect(() => locks.assertHeld('other')).toThrow('"other" is not held by this async flow');
    });
  });
});

describe('two flows', () => {
  it('started inside a lock share it, and exclude flows from outside', async () => {
    const lock = await locks.acquire('k');
    const outside = follow(locks.acquire('k', { waitMs: 50 }));
    await lock.run(() => locks.withLock('k', () => undefined));
    await world.clock.advance(60);
    expect(outside.error).toBeInstanceOf(LockWaitTimeoutError);
    await lock.release();
  });
});

describe('a lock', () => {
  it('is released once, however often it is asked to be', async () => {
    const lock = await locks.acquire('k');
    const outcomes = await Promise.all([lock.release(), lock.release(), lock[Symbol.asyncDispose]()]);
    expect(outcomes).toEqual(['released', 'released', undefined]);
    expect(world.sent('release')).toBe(1);
    expect(lock.validForMs).toBe(0);
    expect(lock.signal.aborted).toBe(false);
    expect(() => lock.assertHeld()).toThrow('was released');
    await expect(lock.run(() => undefined)).rejects.toBeInstanceOf(LockNotHeldError);
  });

  it('tells whoever listens of its loss, once, and nobody who has stopped listening', async () => {
    const lock = (await world.service().acquire(['x', 'y'])) as HeldLock;
    const told: string[] = [];
    lock.onLoss(({ key }) => told.push(String(key)));
    lock.onLoss(() => told.push('stopped'))();
    await world.eye.forceRelease('y');
    await world.clock.settle();
    expect(told).toEqual(['y']);
    await lock.release();
    expect(told).toEqual(['y']);
  });

  it('tells that it was lost when the store finds another holder at the release', async () => {
    const lock = await locks.acquire('k');
    world.faults.notification = () => [];
    await world.eye.forceRelease('k');
    expect(await lock.release()).toBe('lost');
  });

  it('tells "unknown" when the store does not answer its release for a whole lease and three looks, and never rejects', async () => {
    const locks = world.service({ watchdogTimeoutMs: 300 });
    const lock = await locks.acquire('k');
    world.cutNetwork();
    const released = follow(lock.release());
    await world.clock.advance(5000);
    expect(released.value).toBe('unknown');
    world.mendNetwork();
  });

  it('goes back at the end of its block by "await using"', async () => {
    let seen: Lock | undefined;
    {
      await using lock = await locks.acquire('k');
      seen = lock;
      lock.assertHeld();
    }
    expect(() => seen?.assertHeld()).toThrow(LockNotHeldError);
    expect(await world.eye.inspect('k')).toBeNull();
  });
});

describe('several keys', () => {
  it('are taken in one order everywhere, so that two callers do not wait for each other', async () => {
    const [one, two] = [world.service(), world.service()];
    const first = follow(one.withLock(['b', 'a', 'c'], (lock) => lock.keys));
    const second = follow(two.withLock(['c', 'a', 'b'], (lock) => lock.keys));
    await world.clock.advance(100);
    expect([first.value, second.value]).toEqual([
      ['b', 'a', 'c'],
      ['c', 'a', 'b'],
    ]);
    const order = world.commands.flatMap((command) =>
      command.kind === 'acquire' ? [command.request.key] : [],
    );
    expect(order.indexOf('a')).toBeLessThan(order.indexOf('b'));
    expect(order.indexOf('b')).toBeLessThan(order.indexOf('c'));
  });

  it('have a token each, and no common one', async () => {
    const lock = await locks.acquire(['x', 'y', 'x']);
    expect(lock.keys).toEqual(['x', 'y']);
    expect(lock.tokenOf('x')).not.toBe(lock.tokenOf('y'));
    expect(() => lock.fencingToken).toThrow(LockConfigurationError);
    expect(() => lock.tokenOf('z')).toThrow(LockNotHeldError);
    expect(await lock.release()).toBe('released');
  });

  it('are lost as soon as one of them is', async () => {
    const lock = await locks.acquire(['x', 'y']);
    const { signal } = lock;
    await world.eye.forceRelease('y');
    await world.clock.settle();
    expect(signal.reason).toBeInstanceOf(LockLostError);
    expect(() => lock.assertHeld()).toThrow('Lost "y"');
    expect(lock.validForMs).toBe(0);
    expect(await lock.release()).toBe('lost');
    expect(await world.eye.inspect('x')).toBeNull();
  });

  it('that the flow holds in part are asked for only where they are missing', async () => {
    await locks.withLock('b', async () => {
      await locks.withLock(['a', 'b', 'c'], (lock) => lock.assertHeld());
    });
    const asked = world.commands.flatMap((command) =>
      command.kind === 'acquire' ? [command.request.key] : [],
    );
    expect(asked).toEqual(['b', 'a', 'c']);
  });
});

describe('what the caller gives', () => {
  it.each([[''], [[]], [[['a', '']]], [42], [null], [['a', undefined]], ['x'.repeat(1025)]])(
    'is refused when it is no key: %j',
    async (key) => {
      const failed = follow(locks.acquire(key as unknown as string));
      await world.clock.settle();
      const isRefused =
        failed.error instanceof LockKeyError || failed.error instanceof LockConfigurationError;
      expect(isRefused).toBe(true);
      expect(world.commands).toEqual([]);
    },
  );

  it('is refused with a sentence when it is a bigint, an object that refers to itself, or half of a character', async () => {
    const circular: { self?: unknown } = {};
    circular.self = circular;
    for (const key of [1n, circular, Symbol('k'), 'a\ud800', '\udc00']) {
      await expect(locks.acquire(key as string)).rejects.toBeInstanceOf(LockKeyError);
    }
    await locks.withLock('\u{1f512}', (lock) => lock.assertHeld());
  });

  it('is refused when it is no key by every call that looks at one, also inside another lock', async () => {
    await locks.withLock('other', async () => {
      for (const key of [undefined, null, '', 42] as unknown as string[]) {
        for (const call of ['inspect', 'isHeld', 'forceRelease'] as const)
          await expect(locks[call](key)).rejects.toBeInstanceOf(LockKeyError);
        expect(() => locks.assertHeld(key)).toThrow(LockKeyError);
      }
    });
  });

  it('opens no store any more after the close, not even to look', async () => {
    let opened = 0;
    const recipe = memoryStore();
    const store = { create: (context: LockStoreContext) => (opened++, recipe.create(context)) };
    const locks = new LockService({ store });
    await locks.close();
    await expect(locks.inspect('k')).rejects.toMatchObject({ code: 'LOCK_SHUTDOWN' });
    await expect(locks.forceRelease('k')).rejects.toMatchObject({ code: 'LOCK_SHUTDOWN' });
    locks.open();
    expect(opened).toBe(0);
  });

  it.each([
    [{ owner: undefined }, 'Leave it out to take the lock from whoever holds it'],
    [{ owner: '' }, 'owner must be the id of a holder'],
    [{ owner: ['a:1', 2] }, 'owner must be the id of a holder'],
    [{ owners: ['a:1'] }, 'forceRelease has no option "owners"; did you mean owner?'],
    [{ by: '' }, 'by must be the name of who releases the lock'],
    ['a:1', 'The options of forceRelease must be an object'],
  ])('are not taken by force with wrong options: %j', async (options, message) => {
    const lock = await locks.acquire('k');
    await expect(locks.forceRelease('k', options as never)).rejects.toThrow(message);
    await world.clock.settle();
    expect(lock.signal.aborted).toBe(false);
    await lock.release();
  });

  it('are taken by force from the holders that were seen, and the event tells from whom and by whom', async () => {
    const events = eventsOf(locks);
    const forced = () => events.filter(({ type }) => type === 'forced');
    const seen = async () => (await locks.inspect('k'))?.holders ?? [];
    const lock = await locks.acquire('k');
    const owner = await seen();
    await lock.release();
    const next = await locks.acquire('k');
    expect(await locks.forceRelease('k', { owner })).toBe('held by another');
    expect(await locks.forceRelease('k', { owner: [] })).toBe('held by another');
    expect(forced()).toEqual([]);
    const [holder = ''] = await seen();
    expect(await locks.forceRelease('k', { owner: holder })).toBe('released');
    expect(await locks.forceRelease('k', { by: 'ann' })).toBe('not held');
    const by = expect.stringMatching(/^forceRelease\(\) .*lock\.service\.spec\.ts:\d+$/);
    expect(forced()).toEqual([{ type: 'forced', key: 'k', owner: undefined, holder, by }]);
    expect(await next.release()).toBe('lost');
  });

  it('may be a hundred keys in one call, and not one more', async () => {
    const keys = Array.from({ length: 101 }, (_, i) => `k${i}`);
    await expect(locks.acquire(keys)).rejects.toThrow('101 keys were given in one call; at most 100');
    const lock = await locks.acquire(keys.slice(1));
    expect(lock.keys).toHaveLength(100);
    await lock.release();
  });

  it.each([
    [{ waitMs: -1 }],
    [{ waitMs: Number.NaN }],
    [{ leaseMs: 0 }],
    [{ leaseMs: 1.5 }],
    [{ leaseMs: Infinity }],
    [{ waitMs: '10' as unknown as number }],
  ])('is refused when it is no time: %j', async (options) => {
    await expect(locks.acquire('k', options)).rejects.toBeInstanceOf(LockConfigurationError);
    expect(() => world.service({ defaults: options })).toThrow(LockConfigurationError);
  });

  it('is filled up with the defaults of the call, then of the registration', async () => {
    const [locks, other] = [world.service({ waitMs: 70, defaults: { leaseMs: 500 } }), world.service()];
    const lock = await locks.acquire('k');
    expect((await world.eye.inspect('k'))?.remainingMs).toBe(500);
    await lock.release();
    const held = await world.take(other, 'k');
    const waits = follow(locks.acquire('k'));
    await world.clock.advance(69);
    expect(waits.state).toBe('pending');
    await world.clock.advance(1);
    expect(waits.error).toBeInstanceOf(LockWaitTimeoutError);
    await held.release();
  });
});

describe('a store that does not answer', () => {
  it('is an error of the store for the caller, within the caller’s time', async () => {
    world.cutNetwork();
    const patient = follow(locks.acquire('k', { waitMs: 250 }));
    const impatient = follow(locks.tryAcquire('other'));
    await world.clock.advance(100);
    expect(impatient.error).toBeInstanceOf(LockStoreError);
    await world.clock.advance(150);
    expect(patient.error).toBeInstanceOf(LockStoreError);
    expect((patient.error as Error).message).toContain('Could not acquire "k" within 250 ms');
    world.mendNetwork();
  });
});
