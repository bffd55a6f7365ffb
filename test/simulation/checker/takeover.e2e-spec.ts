import { describe, expect, it } from '@jest/globals';
import { History, type CallRecord, type Disturbance, type HoldRecord } from '../history/history.js';
import { mayBeForcedOut } from '../history/takeovers.js';
import { Dice } from '../kernel/dice.js';
import { Kernel } from '../kernel/kernel.js';
import { checkTakeover } from './takeover.js';

const TIMES = { handOffMs: 50, commandTimeoutMs: 100, guardMs: 0 };

function call(other: Partial<CallRecord>): CallRecord {
  const times = { askedAt: 0, askedAtOwn: 0, askedAtUptime: 0, settledAt: 100, settledAtOwn: 100 };
  return { call: '1', process: 'P0', keys: ['k'], under: [], waitMs: 60_000, ...times, ...other };
}

/** P0 holds `k` from 100 to 20 000, which P1 takes over from 10 000 on, with a grace of a second. P2 uses another key. */
function historyOf(disturbance: Partial<Disturbance>, taker: Partial<CallRecord> = {}): History {
  const history = new History(new Kernel(new Dice('spec')));
  const alone = {
    claim: 'exclusive',
    weight: 1,
    permits: 1,
    token: 1,
    samples: [],
    endedAt: 20_000,
  } as const;
  history.holds.push({ ...alone, samples: [], call: '1', process: 'P0', key: 'k', from: 100 });
  history.calls.push(
    call({}),
    call({ call: '2', process: 'P1', askedAt: 10_000, settledAt: 20_000, graceMs: 1000, ...taker }),
    call({ call: '3', process: 'P2', keys: ['other'] }),
  );
  history.disturbances.push({ kind: 'cut', at: 10_500, to: 11_000, ...disturbance });
  history.endedAt = 100_000;
  history.commandTimeoutMs = 100;
  return history;
}

describe('a takeover', () => {
  it('may take longer by a fault that one of those felt who asked for the key', () => {
    const check = (disturbance: Partial<Disturbance>) => checkTakeover(historyOf(disturbance), TIMES).length;
    expect([check({ process: 'P0' }), check({ process: 'P1' }), check({})]).toEqual([0, 0, 0]);
    expect(check({ process: 'P2' })).toBe(1);
    expect(check({ kind: 'force', key: 'other' })).toBe(1);
    expect([check({ at: 4000, to: 4500 }), check({ at: 21_000, to: 22_000 })]).toEqual([1, 1]);
  });

  it('ends the rest of a minimum hold with its grace', () => {
    const check = (end: HoldRecord['end'], holdAtLeastMs: number | undefined) => {
      const history = historyOf({ process: 'P2' }, { settledAt: 12_460 });
      const [hold] = history.holds as [HoldRecord];
      history.holds[0] = {
        ...hold,
        endedAt: 10_001,
        ...(end && { end }),
        ...(holdAtLeastMs !== undefined && { holdAtLeastMs }),
      };
      return checkTakeover(history, TIMES).length;
    };
    expect([check('released', 60_000), check('released', undefined), check('lost', 60_000)]).toEqual([
      1, 0, 0,
    ]);
  });

  it('may force a holder out that was kept from its messages, and one that had the lock while the call asked', () => {
    const isToldAt = (toldAt: number) => {
      const history = historyOf({ process: 'P0' });
      const [hold] = history.holds as [HoldRecord];
      hold.toldAt = toldAt;
      return mayBeForcedOut(history, hold, { from: 12_000, to: 12_000 }, 5000);
    };
    const isExcused = (disturbance: Partial<Disturbance>, taker: Partial<CallRecord> = {}, from = 12_000) => {
      const history = historyOf(disturbance, taker);
      return mayBeForcedOut(history, history.holds[0] as HoldRecord, { from, to: from }, 5000);
    };
    expect([isExcused({ process: 'P0' }), isExcused({})]).toEqual([true, true]);
    // The message of the call may be late. The holder counts from when it is told.
    expect([isExcused({ process: 'P1' }), isExcused({ process: 'P2' })]).toEqual([false, false]);
    expect(isExcused({ process: 'P0' }, {}, 10_900)).toBe(false);
    // The call waits for as long as its notice may take, before it takes the lock by force.
    expect(isExcused({ process: 'P0' }, {}, 11_300)).toBe(false);
    expect([isToldAt(10_100), isToldAt(10_600)]).toEqual([false, true]);
    const before: Partial<CallRecord> = { askedAt: -2000, settledAt: undefined, crashedAt: -1000 };
    expect([isExcused({}, before), isExcused({}, { ...before, crashedAt: 1000 })]).toEqual([false, true]);
    // Its call ends before it takes anything by force, and afterwards.
    expect([11_400, 11_500].map((settledAt) => isExcused({}, { settledAt }))).toEqual([false, true]);
  });
});
