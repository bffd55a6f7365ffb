import { beforeEach, describe, expect, it } from '@jest/globals';
import { LOCK } from '../port/lock-store.js';
import type { Holder } from './document.js';
import { ManualClock } from '../testing/manual-clock.js';
import { follow } from '../../../../test/support/lock-world.js';
import { SessionLeases } from './leases.js';

const RETRY_MS = 100;
const orphan = (owner: string): Holder => ({ owner, claim: LOCK, token: 1, lastToken: 1, until: Infinity });

describe('the leases of one client', () => {
  let clock: ManualClock;
  let leases: SessionLeases;
  /** The owners that were released, and when. */
  let released: string[];
  /** Whether the last lease that was released is still over. */
  let isOver: () => boolean;
  beforeEach(() => {
    clock = new ManualClock();
    released = [];
    isOver = () => false;
    const client = {
      clientId: 'me',
      clock,
      commandTimeoutMs: RETRY_MS,
      watchdogTimeoutMs: 30_000,
      holds: () => true,
      notify: () => undefined,
      end: (ending: Parameters<ConstructorParameters<typeof SessionLeases>[0]['end']>[0]) => {
        released.push(`${ending.key} ${ending.owner} ${clock.now()}`);
        isOver = ending.isOver;
      },
    };
    leases = new SessionLeases(client, () => Infinity);
  });

  it('end at their times, in whatever order they began', async () => {
    leases.start('a', 'me:1', 500);
    leases.start('b', 'me:2', 200);
    await clock.advance(200);
    expect(isOver()).toBe(true);
    leases.end('me:2');
    expect(isOver()).toBe(false);
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
    expect(released).toEqual([]);
  });

  it('without an end need no timer', () => {
    leases.start('a', 'me:1', Infinity);
    expect(clock.pendingTimers).toBe(0);
  });

  it('that nobody answers for end as a silent waiter does, one for each key at a time', async () => {
    leases.onHolders('a', [orphan('other:1'), orphan('me:1'), orphan('me:2')]);
    await clock.advance(3000);
    expect(released).toEqual(['a me:1 3000']);
    leases.end('me:1');
    leases.onHolders('a', [orphan('me:2')]);
    await clock.advance(3000);
    expect(released).toEqual(['a me:1 3000', 'a me:2 6000']);
  });

  it('that end soon let their client close once they have ended, and it says whether some are left', async () => {
    leases.start('a', 'me:1', 500);
    leases.start('b', 'me:2', 500);
    leases.start('c', 'me:4', 30_000);
    const closed = follow(leases.close());
    leases.end('me:1');
    await clock.settle();
    expect(closed.state).toBe('pending');
    leases.end('me:2');
    await clock.settle();
    expect(closed.value).toBe(true);
    expect(clock.pendingTimers).toBe(0);
  });

  it('that have all ended leave nothing behind', async () => {
    leases.start('a', 'me:1', 500);
    const closed = follow(leases.close());
    leases.end('me:1');
    await clock.settle();
    expect(closed.value).toBe(false);
  });

  it('that last for long do not keep their client from closing', async () => {
    leases.start('a', 'me:1', 30_000);
    const closed = follow(leases.close());
    await clock.settle();
    expect(closed.value).toBe(true);
  });
});
