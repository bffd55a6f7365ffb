import { describe, expect, it } from '@jest/globals';
import { LockStoreError, LockWaitTimeoutError } from '../../../libs/distributed-lock/src/index.js';
import { History, type CallRecord, type HoldRecord } from '../history/history.js';
import { Dice } from '../kernel/dice.js';
import { Kernel } from '../kernel/kernel.js';
import { checkAway } from './away.js';

const BUSY = new LockWaitTimeoutError('k', 3000);

/** A call of P0 from 900 to 4000, which is told at its end that the key is not free. */
function call(other: Partial<CallRecord> = {}): CallRecord {
  const times = { askedAt: 900, askedAtOwn: 900, askedAtUptime: 900, settledAt: 4000, settledAtOwn: 4000 };
  return { call: '1', process: 'P0', keys: ['k'], under: [], waitMs: 3000, error: BUSY, ...times, ...other };
}

/** P0 reaches no server from `at` to 5000. */
function historyOf(calls: readonly CallRecord[], at = 1000): History {
  const history = new History(new Kernel(new Dice('spec')));
  history.calls.push(...calls);
  history.commandTimeoutMs = 500;
  history.disturbances.push({ kind: 'cut', at, to: 5000, process: 'P0', isWhole: true });
  history.endedAt = 100_000;
  return history;
}

describe('a call whose process does not reach the store', () => {
  it('is not told that the key is not free', () => {
    const check = (other: Partial<CallRecord>) => checkAway(historyOf([call(other)])).length;
    expect([check({}), check({ error: new LockStoreError('away', 'k', 'unknown') })]).toEqual([1, 0]);
    const limited = new LockWaitTimeoutError('k', 3000, undefined, undefined, undefined, 2);
    expect([check({ process: 'P1' }), check({ settledAt: 5001 }), check({ error: limited })]).toEqual([
      0, 0, 0,
    ]);
  });

  it('may have heard so just before, or of a caller of its own process', () => {
    expect(checkAway(historyOf([call()], 2000))).toEqual([]);
    const own: HoldRecord = {
      call: '2',
      process: 'P0',
      key: 'k',
      claim: 'exclusive',
      weight: 1,
      permits: 1,
      token: 1,
      from: 500,
      samples: [],
    };
    const check = (other: Partial<HoldRecord>) => {
      const history = historyOf([call()]);
      history.holds.push({ ...own, ...other });
      return checkAway(history).length;
    };
    expect([check({}), check({ endedAt: 1000 }), check({ process: 'P1' })]).toEqual([0, 1, 1]);
  });
});
