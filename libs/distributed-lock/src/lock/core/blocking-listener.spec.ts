import { describe, expect, it } from '@jest/globals';
import { memoryStore } from '../../memory/store.js';
import { ManualClock } from '../../testing/manual-clock.js';
import { LockService } from '../lock.service.js';

const LEASE_MS = 3000;

describe('a listener of a release that blocks the event loop for longer than the lease', () => {
  it.each(['stays', 'leaves at once'])(
    'does not let the next caller in with a lock that is over, if it %s',
    async (then) => {
      const clock = new ManualClock();
      const locks = new LockService({
        store: memoryStore(),
        clock,
        watchdogTimeoutMs: LEASE_MS,
        shutdownGraceMs: 0,
      });
      const first = await locks.acquire('k');
      // The store grants the second one tokens for local hand-offs, because a third one waits.
      const waiting = [
        locks.acquire('k', { waitMs: Infinity }),
        locks.acquire('k', { waitMs: Infinity }),
      ] as const;
      await clock.settle();
      await first.release();
      const second = await waiting[0];
      const blocking = locks.events$.subscribe(({ type }) => {
        if (type !== 'released') return;
        clock.stall(2 * LEASE_MS);
        if (then !== 'stays') blocking.unsubscribe();
      });
      void second.release();
      await clock.advance(LEASE_MS);
      blocking.unsubscribe();
      const third = await waiting[1];
      expect(third.validForMs).toBeGreaterThan(0);
      await third.release();
      await locks.close();
    },
  );
});
