import { beforeEach, describe, expect, it } from '@jest/globals';
import { ManualClock } from '../testing/manual-clock.js';
import { follow } from '../../../../test/support/lock-world.js';
import { ClientSideExpiry } from './leases.js';

const RETRY_MS = 100;

describe('the leases of one client', () => {
  let clock: ManualClock;
  let leases: ClientSideExpiry;
  /** What was released, and when. */
  let released: string[];
  beforeEach(() => {
    clock = new ManualClock();
    released = [];
    leases = new ClientSideExpiry(clock, RETRY_MS, (key, owner) =>
      released.push(`${key} ${owner} ${clock.now()}`),
    );
  });

  it('end at their times, in whatever order they began', async () => {
    leases.start('a', 'me:1', 500);
    leases.start('b', 'me:2', 200);
    await clock.advance(200);
    expect([leases.isOver('me:2'), leases.isOver('me:1')]).toEqual([true, false]);
    leases.end('me:2');
    await clock.advance(300);
    expect(released).toEqual(['b me:2 200', 'a me:1 500']);
  });

  it('that are over are released again until they have ended', async () => {
    leases.start('a', 'me:1', 200);
    await clock.advance(200 + 2 * RETRY_MS);
    leases.end('me:1');
    await clock.advance(5 * RETRY_MS);
    expect(released).toEqual(['a me:1 200', 'a me:1 300', 'a me:1 400']);
    expect(clock.pendingTimers).toBe(0);
  });

  it('begin again with each renewal, and last while one is under way', async () => {
    leases.start('a', 'me:1', 200);
    await clock.advance(150);
    leases.start('a', 'me:1', 200);
    await clock.advance(190);
    leases.extend('me:1', 100);
    await clock.advance(90);
    expect(released).toEqual([]);
    await clock.advance(10);
    expect(released).toEqual(['a me:1 440']);
  });

  it('are not made by a request, and not shortened by one', async () => {
    leases.extend('me:1', 100);
    leases.start('a', 'me:2', 500);
    leases.extend('me:2', 100);
    await clock.advance(499);
    expect([released, leases.isOver('me:1')]).toEqual([[], false]);
  });

  it('without an end need no timer', () => {
    leases.start('a', 'me:1', Infinity);
    expect(clock.pendingTimers).toBe(0);
  });

  it('that nobody answers for end as a silent waiter does, one for each key at a time', async () => {
    leases.expireOrphan('a', 'me:1');
    leases.expireOrphan('a', 'me:2');
    await clock.advance(3000);
    expect(released).toEqual(['a me:1 3000']);
    leases.end('me:1');
    leases.expireOrphan('a', 'me:2');
    await clock.advance(3000);
    expect(released).toEqual(['a me:1 3000', 'a me:2 6000']);
  });

  it('that end soon let their client close once they have ended, and it says whether some are left', async () => {
    leases.start('a', 'me:1', 500);
    leases.start('b', 'me:2', 500);
    leases.start('c', 'me:4', 30_000);
    const ended = follow(leases.whenEnded(1000));
    leases.end('me:1');
    await clock.settle();
    expect(ended.state).toBe('pending');
    leases.end('me:2');
    await clock.settle();
    expect(ended.state).toBe('resolved');
    leases.end('me:4');
    expect(leases.stop()).toBe(false);
    leases.start('a', 'me:3', 500);
    expect([leases.stop(), clock.pendingTimers]).toEqual([true, 0]);
  });

  it('that last for long do not keep their client from closing', async () => {
    leases.start('a', 'me:1', 30_000);
    const ended = follow(leases.whenEnded(1000));
    await clock.settle();
    expect(ended.state).toBe('resolved');
    leases.stop();
  });
});
