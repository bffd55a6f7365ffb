import { describe, expect, it } from '@jest/globals';
import { eventsOf, typesOf } from '../../../../test/support/events.js';
import { follow } from '../../../../test/support/lock-world.js';
import { locks, other, world } from '../../../../test/support/world-per-test.js';
import type { LockService } from './lock.service.js';

const count = (events: readonly { type: string }[]) =>
  events.filter(({ type }) => type === 'contended').length;

describe('lock.contended', () => {
  it('is false while nobody else wants the lock', async () => {
    const events = eventsOf(locks);
    const lock = await world.take(locks, 'k');
    await world.clock.advance(60_000);
    expect(await other.tryAcquire('k')).toBeNull();
    expect(await locks.tryAcquire('k')).toBeNull();
    expect(lock.contended).toBe(false);
    await lock.release();
    expect(typesOf(events)).not.toContain('contended');
  });

  it.each(['of this process', 'of another process'])('is true while a caller %s waits', async (where) => {
    const lock = await world.take(locks, 'k');
    const leaving = new AbortController();
    const events = eventsOf(locks);
    const waiter = follow(
      (where === 'of this process' ? locks : other).acquire('k', { signal: leaving.signal }),
    );
    await world.clock.settle();
    expect(lock.contended).toBe(true);
    expect(count(events)).toBe(1);
    expect(events.find(({ type }) => type === 'contended')).toMatchObject({
      key: 'k',
      owner: expect.any(String),
    });
    leaving.abort();
    await world.clock.advance(20_000);
    expect(waiter.state).toBe('rejected');
    expect(lock.contended).toBe(false);
    await lock.release();
  });

  it('is true from the start for a holder whom others waited behind, without an event', async () => {
    const first = await world.take(other, 'k');
    const [one, two] = [follow(locks.acquire('k')), follow(locks.acquire('k'))];
    await world.clock.settle();
    const events = eventsOf(locks);
    await first.release();
    await world.clock.settle();
    expect([one.value.contended, two.state]).toEqual([true, 'pending']);
    await one.value.release();
    await world.clock.settle();
    expect(two.value.contended).toBe(false);
    await two.value.release();
    expect(count(events)).toBe(0);
  });

  it('is told once, however many wait', async () => {
    const lock = await world.take(locks, 'k');
    const events = eventsOf(locks);
    const waiters = [locks, other, locks, other].map((service) =>
      follow(service.acquire('k', { waitMs: 100 })),
    );
    await world.clock.advance(200);
    expect(count(events)).toBe(1);
    expect(waiters.map(({ state }) => state)).toEqual(Array(4).fill('rejected'));
    await lock.release();
  });

  it('is false once the lock is released, and does not keep a work from yielding: the next caller gets the lock', async () => {
    const turns: string[] = [];
    const job = (service: LockService, name: string) =>
      service.withLock('k', async (lock) => {
        do {
          turns.push(name);
          await new Promise<void>((resolve) => world.clock.after(10, resolve));
        } while (!lock.contended && turns.length < 20);
      });
    const one = follow(job(locks, 'one'));
    await world.clock.advance(25);
    const two = follow(job(other, 'two'));
    await world.clock.advance(500);
    expect([one.state, two.state]).toEqual(['resolved', 'resolved']);
    expect(turns.slice(0, 5)).toEqual(['one', 'one', 'one', 'two', 'two']);
    const lock = await world.take(locks, 'k');
    const waiter = follow(other.acquire('k'));
    await world.clock.settle();
    await lock.release();
    expect(lock.contended).toBe(false);
    await world.clock.settle();
    await waiter.value.release();
  });
});
