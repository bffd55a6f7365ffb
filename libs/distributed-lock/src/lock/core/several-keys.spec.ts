import { describe, expect, it } from '@jest/globals';
import { eventsOf } from '../../../../../test/support/events.js';
import { follow } from '../../../../../test/support/lock-world.js';
import { locks, other, world } from '../../../../../test/support/world-per-test.js';
import { LockWaitTimeoutError } from '../../port/lock.errors.js';

describe('several keys that are free', () => {
  it('are taken in sorted order, and are those of the lock in the order given', async () => {
    const events = eventsOf(locks);
    const lock = await world.take(locks, ['b', 'a', 'c']);
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
  it('are granted when the last of them is released', async () => {
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

  it('are all free again when one of them is refused', async () => {
    const b = await world.take(other, 'b');
    const all = follow(locks.acquire(['a', 'b', 'c'], { waitMs: 0 }));
    await world.clock.settle();
    expect(all.error).toBeInstanceOf(LockWaitTimeoutError);
    expect((all.error as LockWaitTimeoutError).key).toBe('b');
    for (const key of ['a', 'c']) expect(await world.eye.inspect(key)).toBeNull();
    await b.release();
  });

  it('let nobody in the queue of one of several keys be overtaken', async () => {
    const b = await world.take(other, 'b');
    const first = follow(world.service().acquire('b'));
    await world.clock.advance(10);
    const both = follow(locks.acquire(['a', 'b']));
    await world.clock.advance(10);
    await b.release();
    await world.clock.advance(10);
    expect(both.state).toBe('pending');
    await first.value.release();
    await world.clock.advance(10);
    await both.value.release();
  });
});

describe('several keys and a store that fails', () => {
  it('are given back when the answer for one of them is lost', async () => {
    world.lose((command) => command.kind === 'acquire' && command.request.key === 'b');
    const both = follow(locks.acquire(['a', 'b'], { waitMs: 0 }));
    await world.clock.advance(1000);
    expect(both.error).toMatchObject({ code: 'LOCK_STORE', key: 'b' });
    expect(await world.eye.inspect('a')).toBeNull();
  });

  it('are granted by the first answer for each, however short waitMs is', async () => {
    world.faults.command = ({ kind }) => (kind === 'acquire' ? { repliedAfterMs: 90 } : undefined);
    const both = follow(locks.acquire(['a', 'b'], { waitMs: 1 }));
    await world.clock.advance(200);
    expect(await both.value.release()).toBe('released');
  });

  it('reject with the reason of a signal, at once', async () => {
    const controller = new AbortController();
    world.faults.command = ({ kind }) => (kind === 'acquire' ? { repliedAfterMs: 90 } : undefined);
    const both = follow(locks.acquire(['a', 'b'], { signal: controller.signal }));
    await world.clock.advance(20);
    controller.abort(new Error('enough'));
    await world.clock.settle();
    expect((both.error as Error).message).toBe('enough');
    await world.clock.advance(200);
    expect(await world.eye.inspect('a')).toBeNull();
  });
});

describe('several keys of which one is shared with the call around them', () => {
  it('refuse an extension before any lease is changed, if the watchdog renews that one', async () => {
    const outer = await world.take(locks, 'a');
    const nested = await outer.run(() => locks.acquire(['a', 'b'], { leaseMs: 2000 }));
    const refused = follow(nested.extend(100));
    await world.clock.advance(0);
    expect(refused.error).toMatchObject({ code: 'LOCK_CONFIGURATION' });
    expect(nested.validForMs).toBeGreaterThan(100);
    await nested.release();
    await outer.release();
  });
});
