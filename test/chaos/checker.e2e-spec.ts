import { describe, expect, it } from '@jest/globals';
import { checkHistory, type HistoryRecord } from '../../chaos/index.mjs';
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
    story.hold('a.1', { app: 'a', from: 1000, to: 1100, token: 11 });
    story.hold('b.1', { app: 'b', from: 1090, to: 1200, token: 12 });
    expect(rulesBroken(story)).toEqual(['exclusion']);
  });

  it('lets readers share, and no writer with them', () => {
    const shared = goodHistory();
    shared.hold('a.1', { app: 'a', from: 1000, to: 1100, token: 11, mode: 'shared' });
    shared.hold('b.1', { app: 'b', from: 1050, to: 1200, token: 12, mode: 'shared' });
    expect(rulesBroken(shared)).toEqual([]);
    shared.hold('b.2', { app: 'b', from: 1150, to: 1250, token: 13 });
    expect(rulesBroken(shared)).toContain('exclusion');
  });

  it('lets as many share as there are permits, and not one more', () => {
    const story = goodHistory();
    const permits = { mode: 'permits', permits: 2 };
    story.hold('a.1', { app: 'a', from: 1000, to: 1100, token: 11, ...permits });
    story.hold('b.1', { app: 'b', from: 1050, to: 1200, token: 12, ...permits });
    expect(rulesBroken(story)).toEqual([]);
    story.hold('b.2', { app: 'b', from: 1090, to: 1110, token: 13, ...permits });
    expect(rulesBroken(story)).toContain('exclusion');
  });

  describe('where data was lost', () => {
    const overlapping = (to: number): Story => {
      const story = goodHistory();
      story.fault({ kind: 'flushall', losesData: true, from: 1050, to: 1060, recoverMs: 1500 });
      story.hold('a.1', { app: 'a', from: 1000, to, token: 11 });
      story.hold('b.1', { app: 'b', from: 1070, to: to + 100, token: 12 });
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
      story.hold('a.1', { app: 'a', from: 1000, to: 1500, token: 11, ...permits });
      story.hold('b.1', { app: 'b', askedAt: 1070, from: 1080, to: 1400, token: 12, ...permits });
      story.hold('b.2', { app: 'b', askedAt: 1070, from: 1090, to: 1400, token: 13, ...permits });
      expect(rulesBroken(story)).toEqual([]);
      story.hold('b.3', { app: 'b', askedAt: 1070, from: 1100, to: 1400, token: 14, ...permits });
      expect(rulesBroken(story)).toEqual(['exclusion']);
    });

    it('allows nothing to who asked after the loss', () => {
      const story = goodHistory();
      story.fault({ kind: 'flushall', losesData: true, from: 500, to: 510, recoverMs: 1500 });
      story.hold('a.1', { app: 'a', from: 1000, to: 1100, token: 11 });
      story.hold('b.1', { app: 'b', from: 1050, to: 1150, token: 12 });
      expect(rulesBroken(story)).toContain('exclusion');
    });
  });

  it('finds a token that does not grow', () => {
    const story = goodHistory();
    story.hold('a.1', { app: 'a', from: 1000, to: 1100, token: 11 });
    story.hold('b.1', { app: 'b', askedAt: 1150, from: 1200, to: 1300, token: 10 });
    expect(rulesBroken(story)).toContain('tokens');
  });

  it('finds a token that is given twice', () => {
    const story = goodHistory();
    story.hold('a.1', { app: 'a', from: 1000, to: 1100, token: 11 });
    story.hold('b.1', { app: 'b', from: 1200, to: 1300, token: 11 });
    expect(rulesBroken(story)).toContain('tokens');
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
    story.hold('a.1', { app: 'a', from: 1000, to: 1100, token: 11 });
    story.hold('b.1', { app: 'b', askedAt: 1050, from: 3000, to: 3100, token: 12 });
    expect(rulesBroken(story)).toEqual(['liveness']);
  });

  it('gives a fault its time to heal, and no more', () => {
    const idleUntil = (from: number): Story => {
      const story = goodHistory();
      story.fault({ kind: 'server-down', stopsStore: true, from: 1100, to: 4000, recoverMs: 1500 });
      story.hold('b.1', { app: 'b', askedAt: 1050, from, to: from + 100, token: 12 });
      return story;
    };
    expect(rulesBroken(idleUntil(5400))).toEqual([]);
    expect(rulesBroken(idleUntil(5600))).toContain('liveness');
  });

  it('finds a caller that is never answered, and one that is answered too late', () => {
    const story = goodHistory();
    story.asked('a.1', { app: 'a', at: 8000, waitMs: 100 });
    expect(rulesBroken(story)).toContain('answers');
    const late = goodHistory();
    late.asked('a.1', { app: 'a', at: 1000, waitMs: 100 });
    late.settled('a.1', { app: 'a', at: 3000, outcome: 'LOCK_WAIT_TIMEOUT' });
    expect(rulesBroken(late)).toContain('answers');
  });

  it('forgives a caller whose process was frozen', () => {
    const story = goodHistory();
    story.fault({ kind: 'freeze', app: 'a', freezes: true, from: 1010, to: 4000, recoverMs: 2000 });
    story.asked('a.1', { app: 'a', at: 1000, waitMs: 100 });
    story.settled('a.1', { app: 'a', at: 4100, outcome: 'LOCK_WAIT_TIMEOUT' });
    expect(rulesBroken(story)).toEqual([]);
  });

  it('finds a holder that is not told of its loss within a lease', () => {
    const story = goodHistory();
    story.fault({ kind: 'flushall', losesData: true, from: 1050, to: 1060, recoverMs: 1500 });
    story.hold('a.1', { app: 'a', from: 1000, believedTo: 1100, to: 4000, token: 11 });
    story.hold('b.1', { app: 'b', from: 1110, to: 1200, token: 12 });
    expect(rulesBroken(story)).toEqual(['losses']);
  });

  it('finds a call that succeeded although it was told of its loss', () => {
    const story = goodHistory();
    story.hold('a.1', { app: 'a', from: 1000, to: 1100, token: 11 });
    story.record({ type: 'told', who: 'a', at: 1050, call: 'a.1', key: 'goods', reason: 'taken' });
    expect(rulesBroken(story)).toEqual(['losses']);
  });

  it('finds an error without a fault', () => {
    const story = goodHistory();
    story.asked('a.1', { app: 'a', at: 1000, waitMs: 100 });
    story.settled('a.1', { app: 'a', at: 1100, outcome: 'LOCK_STORE' });
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
    ['nest_lock_line:{goods}', 60_000],
    ['nest_lock_token:{goods}', -1],
  ])('finds what is left in Redis: %s for %d ms', (name, remainingMs) => {
    const story = goodHistory();
    story.record({ type: 'remains', who: 'runner', at: 9990, keys: [{ name, remainingMs }] });
    expect(rulesBroken(story)).toEqual(['remains']);
  });

  it('finds a process that is not served any more when all is well again', () => {
    const story = goodHistory();
    story.exit('c', { errors: '', code: 0, expected: true });
    expect(rulesBroken(story)).toEqual(['service']);
  });

  it('calls a trial without a single section a failure', () => {
    const [trial] = goodHistory().records;
    const { findings } = checkHistory([trial as HistoryRecord]);
    expect(findings.map(({ rule }) => rule)).toEqual(['injections']);
  });
});
