import { describe, expect, it } from '@jest/globals';
import { eventsOf } from '../../../../../test/support/events.js';
import { follow } from '../../../../../test/support/lock-world.js';
import { locks, other, world } from '../../../../../test/support/world-per-test.js';
import { LockShutdownError, LockStoreError, LockWaitTimeoutError } from '../../port/lock.errors.js';

describe('several keys that are free', () => {
  it('are taken with one command', async () => {
    const events = eventsOf(locks);
    const lock = await world.take(locks, ['b', 'a', 'c']);
    expect(world.commands.map(({ kind }) => kind)).toEqual(['acquireAll']);
    expect(lock.keys).toEqual(['b', 'a', 'c']);
    expect(events.map(({ type, key }) => `${type} ${key}`)).toEqual([
      'asked a',
      'acquired a',
      'asked b',
      'acquired b',
      'asked c',
      'acquired c',
    ]);
    expect(await lock.release()).toBe('released');
    expect(await world.eye.inspect('a')).toBeNull();
  });

  it('are renewed until release', async () => {
    const lock = await world.take(locks, ['a', 'b']);
    await world.clock.advance(100_000);
    lock.assertHeld();
    expect((await world.eye.inspect('b'))?.holders).toHaveLength(1);
    await lock.release();
  });

  it('are passed on to callers of the same process that came meanwhile', async () => {
    const both = follow(locks.acquire(['a', 'b']));
    const one = follow(locks.acquire('a'));
    await world.clock.settle();
    expect([both.state, one.state]).toEqual(['resolved', 'pending']);
    await both.value.release();
    await world.clock.settle();
    await one.value.release();
  });
});

describe('several keys of which one is not free', () => {
  it('are taken one by one, and leave the free ones alone until then', async () => {
    const b = await world.take(other, 'b');
    const both = follow(locks.acquire(['a', 'b']));
    await world.clock.advance(10);
    expect(both.state).toBe('pending');
    await b.release();
    await world.clock.advance(10);
    await both.value.release();
    expect(await world.eye.inspect('a')).toBeNull();
  });

  it('are not asked for together while this process itself holds one of them', async () => {
    const a = await world.take(locks, 'a');
    const both = follow(locks.acquire(['a', 'b']));
    await world.clock.settle();
    expect(world.sent('acquireAll')).toBe(0);
    await a.release();
    await world.clock.settle();
    await both.value.release();
  });

  it('are not given to whose first lease ran out while it waited for the next, and nothing is kept', async () => {
    const busy = await world.take(other, 'b');
    const call = follow(locks.withLock(['a', 'b'], { leaseMs: 500, waitMs: 3000 }, () => 'let in'));
    await world.clock.advance(1000);
    await busy.release();
    await world.clock.advance(10);
    expect(call.error).toMatchObject({ code: 'LOCK_LOST', key: 'a', reason: 'expired' });
    for (const key of ['a', 'b']) expect(await world.eye.inspect(key)).toBeNull();
  });
});

describe('several keys and a store that fails', () => {
  it('are given back when the answer was lost, and then taken one by one', async () => {
    world.faults.command = ({ kind }) => (kind === 'acquireAll' ? { repliedAfterMs: 'never' } : undefined);
    const both = follow(locks.acquire(['a', 'b']));
    await world.clock.advance(1000);
    const lock = both.value;
    expect((await world.eye.inspect('a'))?.holders).toHaveLength(1);
    lock.assertHeld();
    await lock.release();
    expect(await world.eye.inspect('b')).toBeNull();
  });

  it('are granted by the first answer, however short waitMs is', async () => {
    world.faults.command = ({ kind }) => (kind === 'acquireAll' ? { repliedAfterMs: 90 } : undefined);
    const both = follow(locks.acquire(['a', 'b'], { waitMs: 1 }));
    await world.clock.advance(100);
    expect(await both.value.release()).toBe('released');
  });

  it('reject when the store fails and waitMs is over, and what was granted is given back', async () => {
    world.faults.command = ({ kind }) => (kind === 'acquireAll' ? { repliedAfterMs: 'never' } : undefined);
    const both = follow(locks.acquire(['a', 'b'], { waitMs: 50 }));
    await world.clock.advance(100);
    expect(both.error).toBeInstanceOf(LockStoreError);
    await world.clock.advance(200);
    expect(await world.eye.inspect('a')).toBeNull();
    expect(await world.eye.inspect('b')).toBeNull();
  });

  it('reject with the reason of a signal, at once', async () => {
    const controller = new AbortController();
    world.faults.command = ({ kind }) => (kind === 'acquireAll' ? { repliedAfterMs: 90 } : undefined);
    const both = follow(locks.acquire(['a', 'b'], { signal: controller.signal }));
    await world.clock.advance(20);
    controller.abort(new Error('enough'));
    await world.clock.settle();
    expect((both.error as Error).message).toBe('enough');
    await world.clock.advance(200);
    expect(await world.eye.inspect('a')).toBeNull();
  });

  it('are not taken by an answer that took longer than their lease', async () => {
    world.faults.command = ({ kind }) => (kind === 'acquireAll' ? { repliedAfterMs: 90 } : undefined);
    const both = follow(locks.acquire(['a', 'b'], { leaseMs: 60 }));
    await world.clock.advance(89);
    expect(both.state).toBe('pending');
    await world.clock.advance(5);
    both.value.assertHeld();
    expect(both.value.validForMs).toBeGreaterThan(0);
    await both.value.release();
  });

  it('are given back when the application closes meanwhile', async () => {
    world.faults.command = ({ kind }) => (kind === 'acquireAll' ? { repliedAfterMs: 50 } : undefined);
    const both = follow(locks.acquire(['a', 'b']));
    await world.clock.advance(10);
    const closed = follow(locks.close());
    await world.clock.advance(500);
    expect(both.error).toBeInstanceOf(LockShutdownError);
    expect(closed.state).toBe('resolved');
    expect(await world.eye.inspect('a')).toBeNull();
  });

  it('tell who is in the way when they do not wait', async () => {
    const b = await world.take(other, 'b');
    const both = follow(locks.acquire(['a', 'b'], { waitMs: 0 }));
    await world.clock.settle();
    expect(both.error).toBeInstanceOf(LockWaitTimeoutError);
    expect((both.error as LockWaitTimeoutError).key).toBe('b');
    await b.release();
  });
});
