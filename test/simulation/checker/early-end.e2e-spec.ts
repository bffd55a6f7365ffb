import { describe, expect, it } from '@jest/globals';
import { History, type Disturbance, type HoldRecord, type Pause } from '../history/history.js';
import { Dice } from '../kernel/dice.js';
import { Kernel } from '../kernel/kernel.js';
import { checkEarlyEnd } from './early-end.js';

const ROUND_TRIP_MS = 10;

const HOLD: HoldRecord = {
  call: '1',
  process: 'P0',
  key: 'k',
  claim: 'exclusive',
  weight: 1,
  permits: 1,
  token: 1,
  from: 1000,
  samples: [],
};

/** A fixed lease of 5 s, which P0 has from 1000 on, and which is said to have run out after 2 s. */
function check(
  other: Partial<HoldRecord>,
  disturbances: readonly Disturbance[] = [],
  pauses: readonly Pause[] = [],
  commandTimeoutMs = 500,
  beside: readonly HoldRecord[] = [],
) {
  const history = new History(new Kernel(new Dice('spec')));
  history.holds.push(
    { ...HOLD, leaseMs: 5000, endedAt: 3000, end: 'lost', lostBy: 'expired', ...other },
    ...beside,
  );
  history.disturbances.push(...disturbances);
  history.pauses.push(...pauses);
  return checkEarlyEnd(history, { roundTripMs: ROUND_TRIP_MS, commandTimeoutMs }).length;
}

describe('a fixed lease', () => {
  it('does not run out before its time', () => {
    expect([check({}), check({ endedAt: 5950 }), check({ lostBy: 'taken' })]).toEqual([1, 0, 0]);
    expect([check({ isExtended: true }), check({ leaseMs: 2000 })]).toEqual([0, 0]);
  });

  it('may run out sooner if its process stood still, or was kept from its replies', () => {
    const cut = { kind: 'cut', at: 1500, to: 1600 };
    expect([check({}, [cut]), check({}, [{ ...cut, process: 'P0' }])]).toEqual([0, 0]);
    expect([check({}, [{ ...cut, process: 'P1' }]), check({}, [{ ...cut, at: 3500 }])]).toEqual([1, 1]);
    const stop = { process: 'P0', kind: 'stop', from: 1500, to: 1600 } as const;
    expect([check({}, [], [stop]), check({}, [], [{ ...stop, process: 'P1' }])]).toEqual([0, 1]);
  });

  it('may run out sooner by a sleep before it that a clock hid', () => {
    const sleep = { process: 'P0', kind: 'suspend', from: 100, to: 600 } as const;
    const hides = { process: 'P0', kind: 'clock', from: 90, to: 90, setByMs: -500 } as const;
    expect([check({}, [], [sleep, hides]), check({}, [], [sleep])]).toEqual([0, 1]);
  });

  it('may run out sooner by the requests for other keys that its process sends before', () => {
    const early = { endedAt: 5845 };
    const given = (other: Partial<HoldRecord>): HoldRecord => {
      return { ...HOLD, call: '2', key: 'other', from: 500, endedAt: 1000, end: 'released', ...other };
    };
    const beside = (other: Partial<HoldRecord>) => check(early, [], [], 500, [given(other)]);
    expect([check(early), beside({})]).toEqual([1, 0]);
    expect([beside({ endedAt: 900 }), beside({ endedAt: 1100 }), beside({ process: 'P1' })]).toEqual([
      1, 1, 1,
    ]);
  });

  it('may run out within a second beside other holders, if a command has no time for several round trips', () => {
    const hold = { claim: 'permits', endedAt: 1900 } as const;
    const slow = (other: Partial<HoldRecord>) => check(other, [], [], 4 * ROUND_TRIP_MS);
    expect([slow(hold), check(hold)]).toEqual([0, 1]);
    expect([slow({ ...hold, claim: 'exclusive' }), slow({ ...hold, endedAt: 2100 })]).toEqual([1, 1]);
  });
});
