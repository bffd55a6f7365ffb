import { describe, expect, it } from '@jest/globals';
import { follow } from '../../../../../test/support/lock-world.js';
import { locks, other, world } from '../../../../../test/support/world-per-test.js';
import { LockNotHeldError } from '../../port/lock.errors.js';
import type { Lock } from '../lock.js';

const EXCLUSIVE = { mode: 'exclusive', waitMs: 60_000 } as const;

/** A lock whose owner passes it on to the caller that waits next, without asking the store. */
async function handedOn(): Promise<{ readonly lock: Lock; readonly next: { readonly value: Lock } }> {
  const first = await world.take(locks, 'k', EXCLUSIVE);
  const [second, third, last] = [1, 2, 3].map(() => follow(locks.acquire('k', EXCLUSIVE)));
  await first.release();
  await world.clock.settle();
  const { value: lock } = second as NonNullable<typeof second>;
  void last?.promise.then((it) => it.release());
  return { lock, next: third as NonNullable<typeof third> };
}

describe('a call of a lock that is not awaited before its release', () => {
  it.each<[name: string, call: (lock: Lock) => Promise<unknown>]>([
    ['downgrade', (lock) => lock.downgrade()],
    ['keepFor', (lock) => lock.keepFor(100)],
    ['detach', (lock) => lock.detach({ leaseMs: 60_000 })],
    ['run', (lock) => lock.run(() => 'ran without its lock')],
  ])('%s is refused, and changes nothing for the caller that has the lock by then', async (_, call) => {
    const { lock, next } = await handedOn();
    const called = follow(call(lock));
    const released = follow(lock.release());
    await world.clock.settle();
    expect(called.error).toBeInstanceOf(LockNotHeldError);
    expect(released.value).toBe('released');
    await world.clock.advance(1000);
    expect(next.value.owner).toBe(lock.owner);
    expect([next.value.mode, next.value.signal.aborted]).toEqual(['exclusive', false]);
    await next.value.release();
    await world.clock.advance(1000);
    const free = await world.take(other, 'k', EXCLUSIVE);
    expect(free.fencingToken).toBeGreaterThan(lock.fencingToken);
    await free.release();
  });

  it('detach gives one baton, however often it is called at once', async () => {
    const lock = await world.take(locks, 'k');
    const [one, another] = [1, 2].map(() => follow(lock.detach({ leaseMs: 60_000 })));
    await world.clock.settle();
    expect(another?.error).toMatchObject({
      code: 'LOCK_NOT_HELD',
      message: expect.stringContaining('this lock was detached'),
    });
    const attached = follow(other.attach(one?.value as string));
    await world.clock.settle();
    await attached.value.release();
  });
});
