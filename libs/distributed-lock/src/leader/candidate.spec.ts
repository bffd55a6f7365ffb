import { describe, expect, it } from '@jest/globals';
import type { LockStoreFactory } from '../port/lock-store.js';
import { LockService } from '../lock/lock.service.js';
import type { LockEvent } from '../lock/events/lock.events.js';
import { memoryStore } from '../memory/store.js';
import { ManualClock } from '../testing/manual-clock.js';
import { warningsDuring } from '../../../../test/support/warnings.js';
import { Candidate, FIRST_PAUSE_MS, MAX_PAUSE_MS, type TermHandlers } from './candidate.js';

const NONE: TermHandlers = { elected: [], demoted: [] };

function stage(handlers = NONE, store = memoryStore()) {
  const clock = new ManualClock();
  const locks = new LockService({ store, clock, shutdownGraceMs: 0 });
  const events: (LockEvent & { readonly at: number })[] = [];
  locks.events$.subscribe((event) => events.push({ ...event, at: clock.now() }));
  const candidate = new Candidate('poller', 'leader:poller');
  candidate.stand(locks, handlers);
  return { clock, locks, events, candidate };
}

/** A memory store that executes no release before `resume` is called. */
function stalledReleases() {
  let resume = (): void => undefined;
  const resumed = new Promise<void>((resolve) => (resume = resolve));
  const store: LockStoreFactory = {
    create(context) {
      const created = memoryStore().create(context);
      const release = created.release.bind(created);
      created.release = (request) => resumed.then(() => release(request));
      return created;
    },
  };
  return { store, resume };
}

/** The times between events, in ms. */
const gapsOf = (times: readonly number[]) => times.slice(1).map((at, i) => at - (times[i] as number));

describe('a candidate', () => {
  it('whose handler fails each time pauses for longer each time, up to the longest pause', async () => {
    const fail = (): never => {
      throw new Error('boom');
    };
    const { clock, events, candidate, locks } = stage({ elected: [fail], demoted: [] });
    await clock.advance(20 * MAX_PAUSE_MS);
    const gaps = gapsOf(events.filter(({ type }) => type === 'elected').map(({ at }) => at));
    expect(gaps.length).toBeGreaterThan(15);
    gaps.forEach((gap, i) => {
      const longest = Math.min(FIRST_PAUSE_MS * 2 ** i, MAX_PAUSE_MS);
      expect(gap).toBeGreaterThanOrEqual(longest / 2);
      expect(gap).toBeLessThanOrEqual(longest + 100);
    });
    await candidate.close();
    await locks.close();
  });

  it('whose term went well pauses for the shortest time again after its next error', async () => {
    let terms = 0;
    const handler = (): void => {
      if (++terms !== 5) throw new Error('boom');
    };
    const { clock, candidate, locks } = stage({ elected: [handler], demoted: [] });
    await clock.advance(20 * FIRST_PAUSE_MS);
    expect(terms).toBe(5);
    await candidate.resign();
    await clock.advance(FIRST_PAUSE_MS + 100);
    expect(terms).toBe(7);
    await candidate.close();
    await locks.close();
  });

  it('stands no longer when the lock service has closed', async () => {
    const { clock, candidate, locks } = stage();
    await clock.advance(1000);
    await locks.close();
    await clock.advance(1000);
    expect([candidate.isLeader, clock.pendingTimers]).toEqual([false, 0]);
    await candidate.close();
  });

  it('that closes at the moment of its election gives the lock to others at once', async () => {
    const store = memoryStore();
    const { clock, candidate, locks } = stage(NONE, store);
    locks.events$.subscribe(({ type }) => {
      if (type === 'acquired') void candidate.close();
    });
    await clock.advance(1000);
    const other = new LockService({ store, clock });
    const lock = await other.tryAcquire('leader:poller');
    expect(lock).not.toBeNull();
    await lock?.release();
    await Promise.all([other.close(), locks.close()]);
  });

  it('whose event loop was blocked for longer than its lease reads that it leads no longer, before any timer runs', async () => {
    const { clock, candidate, locks } = stage();
    await clock.advance(1000);
    const { term } = candidate;
    expect([candidate.isLeader, term?.signal.aborted]).toEqual([true, false]);
    clock.stall(locks.options.watchdogTimeoutMs);
    expect([candidate.isLeader, candidate.term, term?.signal.aborted]).toEqual([false, undefined, true]);
    await candidate.close();
    await locks.close();
  });

  it('that resigns waits until the store has executed the release', async () => {
    const { store, resume } = stalledReleases();
    const { clock, candidate, locks } = stage(NONE, store);
    await clock.advance(1000);
    let hasResigned = false;
    const resigned = candidate.resign().then(() => (hasResigned = true));
    await clock.advance(1000);
    expect([candidate.isLeader, hasResigned]).toEqual([false, false]);
    resume();
    await resigned;
    await clock.advance(1000);
    expect(candidate.isLeader).toBe(true);
    await candidate.close();
    await locks.close();
  });

  it('that closes leaves the wait for its release to the service', async () => {
    const { store, resume } = stalledReleases();
    const { clock, candidate, locks } = stage(NONE, store);
    await clock.advance(1000);
    await candidate.close();
    expect(candidate.isLeader).toBe(false);
    resume();
    await locks.close();
  });

  it('has terms whose signal takes any number of listeners without a warning of Node', async () => {
    const { clock, candidate, locks } = stage();
    await clock.advance(1000);
    const warnings = await warningsDuring(async () => {
      for (let i = 0; i < 20; i++) candidate.term?.signal.addEventListener('abort', () => i);
    });
    expect([candidate.isLeader, warnings]).toEqual([true, []]);
    await candidate.close();
    await locks.close();
  });

  it('does not run the work of a leader whose term has ended before the work could begin', async () => {
    const { clock, candidate, locks } = stage();
    await clock.advance(1000);
    let runs = 0;
    const calls = [candidate.runAsLeader(() => (runs += 1)), candidate.runAsLeader(() => (runs += 1))];
    expect(await Promise.all(calls)).toEqual([1, 2]);
    clock.stall(locks.options.watchdogTimeoutMs);
    expect(await candidate.runAsLeader(() => (runs += 1))).toBeUndefined();
    expect(runs).toBe(2);
    await candidate.close();
    await locks.close();
  });

  it('that resigns while the store is asked whether the lease goes on does not run the work that waits for the reply', async () => {
    const { clock, candidate, locks } = stage();
    await clock.advance(1000);
    let runs = 0;
    clock.suspend(locks.options.watchdogTimeoutMs / 2);
    const ran = candidate.runAsLeader(() => (runs += 1));
    const resigned = candidate.resign();
    await clock.advance(1000);
    await resigned;
    expect([await ran, runs]).toEqual([undefined, 0]);
    await candidate.close();
    await locks.close();
  });
});
