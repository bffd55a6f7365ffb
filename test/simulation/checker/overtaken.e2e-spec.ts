import { describe, expect, it } from '@jest/globals';
import { History, type CallRecord, type HoldRecord } from '../history/history.js';
import { Dice } from '../kernel/dice.js';
import { Kernel } from '../kernel/kernel.js';
import { checkOvertaken } from './overtaken.js';

/** P0 waits for `k` from 100 to 60 000, while so many owners of P1 come after it and have the key. */
function historyOf(owners: number, claim: HoldRecord['claim'] = 'exclusive'): History {
  const history = new History(new Kernel(new Dice('spec')));
  const call = (process: string, askedAt: number, settledAt: number): CallRecord => ({
    call: `${process} at ${askedAt}`,
    process,
    keys: ['k'],
    under: [],
    waitMs: Infinity,
    askedAt,
    askedAtOwn: askedAt,
    askedAtUptime: askedAt,
    settledAt,
  });
  history.calls.push(call('P0', 100, 60_000));
  for (let i = 1; i <= owners; i++) {
    const [from, owner] = [1000 * i, `P1:${i}`];
    const parts = { key: 'k', claim, weight: 1, permits: 1, token: i, samples: [], endedAt: from + 500 };
    history.calls.push(call('P1', from - 100, from));
    history.holds.push({ ...parts, call: `P1 at ${from - 100}`, process: 'P1', owner, from });
  }
  history.endedAt = 60_000;
  return history;
}

describe('a caller that waits while others come after it', () => {
  const check = (history: History, far: readonly string[] = [], roundTripMs = 10) =>
    checkOvertaken(history, { repairMs: 5000, roundTripMs, services: 2, far: new Set(far) }).length;

  it('is overtaken by few owners', () => {
    expect([check(historyOf(6)), check(historyOf(7))]).toEqual([0, 1]);
  });

  it('may be overtaken by more while it is far away, and others share the key', () => {
    expect(check(historyOf(7), ['P0'])).toBe(1);
    expect(check(historyOf(7, 'shared'), ['P0'])).toBe(0);
    expect([check(historyOf(7, 'shared')), check(historyOf(7, 'shared'), ['P1'])]).toEqual([1, 1]);
  });

  it('counts those that came when its process had the time to reach a server that lags behind', () => {
    expect([check(historyOf(9), [], 260), check(historyOf(9), [], 490)]).toEqual([1, 0]);
  });

  it('counts those that came when the last fault was over', () => {
    const history = historyOf(9);
    history.disturbances.push({ kind: 'cut', at: 500, to: 1000 });
    expect(check(history)).toBe(0);
  });
});
