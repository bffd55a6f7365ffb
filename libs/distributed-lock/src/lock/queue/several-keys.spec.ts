import { describe, expect, it } from '@jest/globals';
import { eventsOf } from '../../../../../test/support/events.js';
import { follow } from '../../../../../test/support/lock-world.js';
import { locks, other, world } from '../../../../../test/support/world-per-test.js';
import { LockWaitTimeoutError } from '../../port/lock.errors.js';

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

  it('are refused if one of them was lost while the call waited for the next', async () => {
    const b = await world.take(other, 'b');
    const both = follow(locks.acquire(['a', 'b']));
    await world.clock.advance(10);
    await world.eye.forceRelease('a');
    await b.release();
    await world.clock.advance(10);
    expect(both.error).toMatchObject({ code: 'LOCK_LOST', key: 'a' });
    expect(await world.eye.inspect('b')).toBeNull();
  });

  it('share one wait', async () => {
    const [a, b] = [await world.take(other, 'a'), await world.take(other, 'b')];
    const both = follow(locks.acquire(['a', 'b'], { waitMs: 1000 }));
    await world.clock.advance(800);
    await a.release();
    await world.clock.advance(100);
    expect(both.state).toBe('pending');
    await world.clock.advance(200);
    expect(both.error).toBeInstanceOf(LockWaitTimeoutError);
    expect(await world.eye.inspect('a')).toBeNull();
    await b.release();
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

  it('tell who is in the way when they do not wait', async () => {
    const b = await world.take(other, 'b');
    const both = follow(locks.acquire(['a', 'b'], { waitMs: 0 }));
    await world.clock.settle();
    expect(both.error).toBeInstanceOf(LockWaitTimeoutError);
    expect((both.error as LockWaitTimeoutError).key).toBe('b');
    await b.release();
  });
});
