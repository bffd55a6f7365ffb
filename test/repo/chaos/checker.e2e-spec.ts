import { readFile } from 'node:fs/promises';
import { describe, expect, it } from '@jest/globals';
import {
  checkHistory,
  growth,
  kindsOf,
  MUTANTS,
  mutate,
  type HistoryRecord,
} from '../../../verification/chaos/index.mjs';
import { goodHistory, type Story } from './stories.js';

const LEASE_MS = 1500;

/** What the checker says about a story, as the rules that were broken. */
function rulesBroken(story: Story): string[] {
  return [...new Set(checkHistory(story.records).findings.map(({ rule }) => rule))];
}

describe('the checker of histories', () => {
  it('finds nothing in a history in which all is well', () => {
    expect(checkHistory(goodHistory().records).findings).toEqual([]);
  });

  it('finds two that believe in one lock at once', () => {
    const story = goodHistory();
    story.hold('a.1', { from: 1000, to: 1100, token: 11 });
    story.hold('b.1', { from: 1090, to: 1200, token: 12 });
    expect(rulesBroken(story)).toEqual(['exclusion']);
  });

  it('lets readers share, and no writer with them', () => {
    const shared = goodHistory();
    shared.hold('a.1', { from: 1000, to: 1100, token: 11, mode: 'shared' });
    shared.hold('b.1', { from: 1050, to: 1200, token: 12, mode: 'shared' });
    expect(rulesBroken(shared)).toEqual([]);
    shared.hold('b.2', { from: 1150, to: 1250, token: 13 });
    expect(rulesBroken(shared)).toContain('exclusion');
  });

  it('lets as many share as there are permits, and not one more', () => {
    const story = goodHistory();
    const permits = { mode: 'permits', permits: 2 };
    story.hold('a.1', { from: 1000, to: 1100, token: 11, ...permits });
    story.hold('b.1', { from: 1050, to: 1200, token: 12, ...permits });
    expect(rulesBroken(story)).toEqual([]);
    story.hold('b.2', { from: 1090, to: 1110, token: 13, ...permits });
    expect(rulesBroken(story)).toContain('exclusion');
  });

  describe('where data was lost', () => {
    const overlapping = (to: number): Story => {
      const story = goodHistory();
      story.fault({ kind: 'flushall', losesData: true, from: 1050, to: 1060, recoverMs: 1500 });
      story.hold('a.1', { from: 1000, to, token: 11 });
      story.hold('b.1', { from: 1070, to: to + 100, token: 12 });
      return story;
    };

    it('allows the old holder its belief for one lease', () => {
      const verdict = checkHistory(overlapping(1060 + LEASE_MS - 10).records);
      expect(verdict.findings).toEqual([]);
      expect(verdict.figures.overlaps).toBe(1);
    });

    it('allows it no longer than that', () => {
      expect(rulesBroken(overlapping(1060 + LEASE_MS + 10))).toContain('exclusion');
    });

    it('does not count who lost its permit, and counts the others', () => {
      const story = goodHistory();
      const permits = { mode: 'permits', permits: 2 };
      story.fault({ kind: 'flushall', losesData: true, from: 1050, to: 1060, recoverMs: 1500 });
      story.hold('a.1', { from: 1000, to: 1500, token: 11, ...permits });
      story.hold('b.1', { askedAt: 1070, from: 1080, to: 1400, token: 12, ...permits });
      story.hold('b.2', { askedAt: 1070, from: 1090, to: 1400, token: 13, ...permits });
      expect(rulesBroken(story)).toEqual([]);
      story.hold('b.3', { askedAt: 1070, from: 1100, to: 1400, token: 14, ...permits });
      expect(rulesBroken(story)).toEqual(['exclusion']);
    });

    it('allows nothing to who asked after the loss', () => {
      const story = goodHistory();
      story.fault({ kind: 'flushall', losesData: true, from: 500, to: 510, recoverMs: 1500 });
      story.hold('a.1', { from: 1000, to: 1100, token: 11 });
      story.hold('b.1', { from: 1050, to: 1150, token: 12 });
      expect(rulesBroken(story)).toContain('exclusion');
    });
  });

  it('finds processes that are served unevenly, where a kind has a limit for that', () => {
    const served = (times: number, more?: object): Story => {
      const story = goodHistory(more);
      for (let i = 0; i < times; i++) {
        story.hold(`a.${i + 1}`, { from: 500 + 10 * i, to: 505 + 10 * i, token: 11 + i });
      }
      return story;
    };
    const limited = { limits: { jain: 0.85 } };
    expect(rulesBroken(served(0, limited))).toEqual([]);
    expect(rulesBroken(served(4, limited))).toEqual(['fairness']);
    expect(rulesBroken(served(4))).toEqual([]);
  });

  it('finds a token that does not grow', () => {
    const story = goodHistory();
    story.hold('a.1', { from: 1000, to: 1100, token: 11 });
    story.hold('b.1', { askedAt: 1150, from: 1200, to: 1300, token: 10 });
    expect(rulesBroken(story)).toContain('tokens');
  });

  it('finds tokens that run ahead of the clock, from which a server that forgets starts again', () => {
    const secondsAhead = (seconds: number, more?: object): Story => {
      const story = goodHistory({ wallAt: 0, ...more });
      story.hold('a.1', { from: 5000, to: 5100, token: (5 + seconds) * 1e6 });
      story.hold('a.8', { from: 9000, to: 9100, token: 9e6 });
      story.hold('b.8', { from: 9200, to: 9300, token: 9.1e6 });
      return story;
    };
    expect(rulesBroken(secondsAhead(1.4))).toEqual([]);
    expect(rulesBroken(secondsAhead(1.6))).toEqual(['tokens']);
    expect(rulesBroken(secondsAhead(1.6, { shiftsClock: true }))).toEqual([]);
  });

  it('finds a write that the register should have refused, and an update that is lost', () => {
    const story = goodHistory();
    story.write('a.1', { at: 1000, token: 12, value: 2 });
    story.write('b.1', { at: 1010, token: 11, value: 3 });
    expect(rulesBroken(story)).toEqual(['register']);
    const lost = goodHistory();
    lost.write('a.1', { at: 1000, token: 11, value: 2 });
    lost.write('b.1', { at: 1010, token: 12, value: 2 });
    expect(rulesBroken(lost)).toEqual(['register']);
  });

  it('finds a key that is wanted and lies idle', () => {
    const story = goodHistory();
    story.hold('a.1', { from: 1000, to: 1100, token: 11 });
    story.hold('b.1', { askedAt: 1050, from: 3000, to: 3100, token: 12 });
    expect(rulesBroken(story)).toEqual(['liveness']);
  });

  it('gives a fault its time to heal, and no more', () => {
    const idleUntil = (from: number): Story => {
      const story = goodHistory();
      story.fault({ kind: 'server-down', stopsStore: true, from: 1100, to: 4000, recoverMs: 1500 });
      story.hold('b.1', { askedAt: 1050, from, to: from + 100, token: 12 });
      return story;
    };
    expect(rulesBroken(idleUntil(5400))).toEqual([]);
    expect(rulesBroken(idleUntil(5600))).toContain('liveness');
  });

  it('finds a caller that is never answered, and one that is answered too late', () => {
    const story = goodHistory();
    story.asked('a.1', { at: 8000, waitMs: 100 });
    expect(rulesBroken(story)).toContain('answers');
    const late = goodHistory();
    late.asked('a.1', { at: 1000, waitMs: 100 });
    late.settled('a.1', { at: 3000, outcome: 'LOCK_WAIT_TIMEOUT' });
    expect(rulesBroken(late)).toContain('answers');
  });

  it('forgives a caller whose process was frozen', () => {
    const story = goodHistory();
    story.fault({ kind: 'freeze', app: 'a', freezes: true, from: 1010, to: 4000, recoverMs: 2000 });
    story.asked('a.1', { at: 1000, waitMs: 100 });
    story.settled('a.1', { at: 4100, outcome: 'LOCK_WAIT_TIMEOUT' });
    expect(rulesBroken(story)).toEqual([]);
  });

  it('excuses errors and delays, and no crime, while the machine was too busy for the runner', () => {
    const busy = (from: number): Story => {
      const story = goodHistory();
      story.record({ type: 'paused', who: 'runner', at: from + 600, from, ms: 600 });
      story.asked('a.1', { at: 1000, waitMs: 100 });
      story.settled('a.1', { at: 1600, outcome: 'LOCK_STORE' });
      return story;
    };
    expect(rulesBroken(busy(1000))).toEqual([]);
    expect(rulesBroken(busy(2000))).toEqual(['errors']);
    const crime = busy(1000);
    crime.hold('a.2', { from: 1100, to: 1300, token: 11 });
    crime.hold('b.2', { from: 1200, to: 1400, token: 12 });
    expect(rulesBroken(crime)).toEqual(['exclusion']);
  });

  it('finds a holder that is not told of its loss within a lease', () => {
    const story = goodHistory();
    story.fault({ kind: 'flushall', losesData: true, from: 1050, to: 1060, recoverMs: 1500 });
    story.hold('a.1', { from: 1000, believedTo: 1100, to: 4000, token: 11 });
    story.hold('b.1', { from: 1110, to: 1200, token: 12 });
    expect(rulesBroken(story)).toEqual(['losses']);
  });

  it('finds a call that succeeded although it was told of its loss', () => {
    const story = goodHistory();
    story.hold('a.1', { from: 1000, to: 1100, token: 11 });
    story.record({ type: 'told', who: 'a', at: 1050, call: 'a.1', key: 'goods', reason: 'taken' });
    expect(rulesBroken(story)).toEqual(['losses']);
  });

  it('finds a call that is let in with a lock that was lost before, unless its process was frozen', () => {
    const story = goodHistory();
    story.asked('a.1', { at: 1000, waitMs: 1000 });
    const entered = { type: 'entered', who: 'a', at: 1500, call: 'a.1', key: 'goods', token: 11 };
    story.record({ ...entered, mode: 'exclusive', believedAt: null });
    story.record({ type: 'left', who: 'a', at: 1510, call: 'a.1', key: 'goods', believedAt: null });
    story.settled('a.1', { at: 1520, outcome: 'LOCK_LOST' });
    story.fault({ kind: 'taken', from: 1000, to: 1100, recoverMs: 1000 });
    expect(rulesBroken(story)).toEqual(['losses']);
    story.fault({ kind: 'freeze', app: 'a', freezes: true, from: 1100, to: 1490, recoverMs: 1000 });
    expect(rulesBroken(story)).toEqual([]);
  });

  it('finds an error without a fault', () => {
    const story = goodHistory();
    story.asked('a.1', { at: 1000, waitMs: 100 });
    story.settled('a.1', { at: 1100, outcome: 'LOCK_STORE' });
    expect(rulesBroken(story)).toEqual(['errors']);
  });

  it('finds a process that says something on stderr, or ends by itself, or does not', () => {
    const loud = goodHistory();
    loud.exit('c', { errors: 'unhandled rejection', code: 1, expected: false });
    expect(rulesBroken(loud)).toContain('exits');
    const stuck = goodHistory();
    stuck.record({ type: 'started', who: 'c', at: 0 });
    stuck.record({ type: 'closing', who: 'runner', at: 100, app: 'c' });
    stuck.record({
      type: 'exited',
      who: 'runner',
      at: 9000,
      app: 'c',
      code: null,
      signal: 'SIGKILL',
      expected: true,
    });
    expect(rulesBroken(stuck)).toEqual(['exits']);
  });

  it.each([
    ['goods', 100],
    ['goods', -1],
    ['nest_lock_queue:{goods}', 60_000],
    ['nest_lock_token:{goods}', -1],
  ])('finds what is left in Redis: %s for %d ms', (name, remainingMs) => {
    const story = goodHistory();
    story.record({ type: 'remains', who: 'runner', at: 9990, keys: [{ name, remainingMs }] });
    expect(rulesBroken(story)).toEqual(['remains']);
  });

  it('finds a rejected promise that nobody handled', () => {
    const story = goodHistory();
    story.record({ type: 'unhandled', who: 'a', at: 1000, error: 'LockStoreError: no answer' });
    expect(rulesBroken(story)).toEqual(['rejections']);
  });

  it('finds a process that is not served any more when all is well again', () => {
    const story = goodHistory();
    story.exit('c', { errors: '', code: 0, expected: true });
    expect(rulesBroken(story)).toEqual(['service']);
  });

  describe('of a quorum', () => {
    const disturbed = (more: object): Story => {
      const story = goodHistory();
      story.fault({ kind: 'node', from: 1050, to: 3000, recoverMs: 1500, ...more });
      return story;
    };

    it('finds a call that fails, and a lock that is lost, while a majority of the nodes is left', () => {
      for (const outcome of ['LOCK_STORE', 'LOCK_LOST']) {
        const story = (more: object): Story => {
          const told = disturbed(more);
          told.asked('a.1', { at: 1100, waitMs: 1000 });
          told.settled('a.1', { at: 1500, outcome });
          return told;
        };
        expect(rulesBroken(story({ sparesMajority: true }))).toEqual(['errors']);
        expect(rulesBroken(story({ stopsStore: true }))).toEqual([]);
      }
    });

    it('finds a node that is told away twice, and one that is told back without having been away', () => {
      const twice = goodHistory();
      twice.node('a', { at: 1000, isUp: false });
      twice.node('a', { at: 1100, isUp: false });
      twice.node('a', { at: 1200, isUp: true });
      expect(rulesBroken(twice)).toEqual(['nodes']);
      const back = goodHistory();
      back.node('a', { at: 1000, isUp: true });
      expect(rulesBroken(back)).toEqual(['nodes']);
    });

    it('finds a node that does not take part again when all is well', () => {
      const story = goodHistory();
      story.node('a', { at: 1000, isUp: false });
      expect(rulesBroken(story)).toEqual(['nodes']);
      story.node('a', { at: 8500, isUp: true });
      expect(rulesBroken(story)).toEqual([]);
    });

    it('does not mind what a process that has ended was told last', () => {
      const story = goodHistory();
      story.record({ type: 'started', who: 'c', at: 0 });
      story.node('c', { at: 1000, isUp: false });
      story.record({ type: 'exited', who: 'runner', at: 2000, app: 'c', expected: true, errors: '' });
      expect(rulesBroken(story)).toEqual([]);
    });
  });

  it('finds a recovery that is usually too long, and not one that is so once', () => {
    const idleFor = (lengths: readonly number[]): Story => {
      const story = goodHistory();
      lengths.forEach((ms, i) => {
        const from = 1000 + 2000 * i;
        story.fault({ kind: 'reset', from, to: from, recoverMs: 1000, goalMs: 500 });
        story.hold(`a.${i + 1}`, { askedAt: from, from: from + ms, to: from + ms + 10, token: 11 + i });
      });
      return story;
    };
    expect(rulesBroken(idleFor([600, 700, 100]))).toEqual(['goals']);
    expect(rulesBroken(idleFor([600, 400, 100]))).toEqual([]);
    expect(rulesBroken(idleFor([600, 700]))).toEqual([]);
  });

  it('finds a process that weighs too much, and waiting that costs Redis too much', () => {
    const crowd = (megabytes: number, scripts: number): Story => {
      const story = goodHistory({ callers: 100, limits: { megabytes: 200, scriptsPerCaller: 2 } });
      story.record({ type: 'sample', who: 'runner', at: 1000, redisScripts: 0 });
      story.record({ type: 'sample', who: 'runner', at: 3000, redisScripts: scripts });
      story.record({ type: 'sample', who: 'a', at: 2000, rss: megabytes * 1e6 });
      return story;
    };
    expect(rulesBroken(crowd(199, 399))).toEqual([]);
    expect(rulesBroken(crowd(201, 399))).toEqual(['load']);
    expect(rulesBroken(crowd(199, 401))).toEqual(['load']);
  });

  it('calls a trial without a single section a failure', () => {
    const [trial] = goodHistory().records;
    const { findings } = checkHistory([trial as HistoryRecord]);
    expect(findings.map(({ rule }) => rule)).toEqual(['injections']);
  });
});

const MB = 1e6;

/** A sample a second of one process, for 100 seconds. */
function samples(heapAt: (second: number) => number, who = 'app1'): HistoryRecord[] {
  const still = { who, type: 'sample', sockets: 3, timers: 10 };
  return Array.from({ length: 100 }, (_, at) => ({ ...still, at, heapUsed: heapAt(at) }));
}

describe('the verdict of a soak', () => {
  it('is that nothing grows when use goes up and down', () => {
    expect(growth(samples((second) => (20 + (second % 10)) * MB)).findings).toEqual([]);
  });

  it('finds a heap that grows', () => {
    const { findings } = growth(samples((second) => (20 + second / 4) * MB));
    expect(findings).toEqual([expect.stringContaining('heapUsed grew')]);
  });

  it('does not judge a process that was started on the way', () => {
    const young = samples((second) => second * MB, 'app5').slice(50);
    expect(growth([...samples(() => 20 * MB), ...young]).findings).toEqual([]);
  });
});

const BUILT = new URL('../../../dist/library/', import.meta.url);

describe('the mutants, which npm run chaos -- --mutants convicts', () => {
  it.each(MUTANTS)('$store $says: that is a change of the library as it is built', async (mutant) => {
    const source = await readFile(new URL(mutant.file, BUILT), 'utf8');
    expect(mutate(source, mutant)).not.toBe(source);
    expect(kindsOf(mutant.store ?? 'redis').map(({ name }) => name)).toContain(mutant.kind);
  });

  it('a mutant that changes nothing any more says so', () => {
    const [mutant] = MUTANTS;
    if (!mutant) throw new Error('There are no mutants.');
    expect(() => mutate('another text', mutant)).toThrow(`any more`);
  });
});
