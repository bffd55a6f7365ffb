import { describe, expect, it } from '@jest/globals';
import {
  LockDeadlockError,
  LockShutdownError,
  LockStoreError,
  LockWaitTimeoutError,
} from '../../../libs/distributed-lock/src/index.js';
import {
  History,
  type CallRecord,
  type Disturbance,
  type HoldRecord,
  type Sample,
} from '../history/history.js';
import { checkDrained } from '../history/drains.js';
import type { Loss } from '../history/loss.js';
import { mustBeTold } from '../history/told.js';
import { Dice } from '../kernel/dice.js';
import { KEY_EVICTED } from '../backends/redis/server-events.js';
import { Kernel } from '../kernel/kernel.js';
import { checkDeadlocks } from './deadlocks.js';
import { checkDrain } from './drain.js';
import { checkEarliness } from './earliness.js';
import { checkErrors } from './errors.js';
import { checkFailover } from './failover.js';
import { checkHandOff } from './hand-off.js';
import { checkExclusion } from './exclusion.js';
import { checkKeptPlaces } from './kept-places.js';
import { checkKinds } from './kinds.js';
import { checkLateness } from './lateness.js';
import { checkMinimumHold } from './minimum-hold.js';
import { checkNeedlessFailure } from './needless-failure.js';
import { checkNeedlessLoss } from './needless-loss.js';
import { checkNotified } from './notified.js';
import { checkOrder } from './order.js';
import { checkRefusal, checkStaleRefusal } from './refusal.js';
import { checkStarvation } from './starvation.js';
import { checkTokens } from './tokens.js';
import { checkTurns } from './turns.js';

const DEADLINES = { commandTimeoutMs: 500, commandsPerCall: 4, commandsInCalm: 1, sendsInOrder: false };

function historyOf(parts: { holds?: readonly HoldRecord[]; calls?: readonly CallRecord[] }): History {
  const history = new History(new Kernel(new Dice('spec')));
  history.holds.push(...(parts.holds ?? []));
  history.calls.push(...(parts.calls ?? []));
  history.endedAt = 100_000;
  return history;
}

/** By a clock of the true speed. */
function sample(at: number, validForMs: number): Sample {
  return { at, validForMs, until: at + validForMs };
}

/** Held from 1000 to 2000 by P0, valid for 5 s. */
function hold(other: Partial<HoldRecord> = {}): HoldRecord {
  const from = other.from ?? 1000;
  return {
    call: `${other.process ?? 'P0'} at ${from}`,
    process: 'P0',
    key: 'k',
    claim: 'exclusive',
    weight: 1,
    permits: 1,
    token: from,
    from,
    samples: [sample(from, 5000)],
    endedAt: from + 1000,
    ...other,
  };
}

/** A crash at 1400, back at 1450, that has cost the lease of the owner `a`. */
function lossOf(other: Partial<Loss>): Loss {
  const leases = [{ key: 'k', owner: 'a', until: 6000, keptUntil: -Infinity }];
  return { at: 1400, to: 1450, leases, isCovered: false, isGuarded: false, isBehind: false, ...other };
}

function call(other: Partial<CallRecord> = {}): CallRecord {
  const times = { askedAt: 0, askedAtOwn: 0, askedAtUptime: 0, settledAt: 100, settledAtOwn: 100 };
  return { call: '1', process: 'P0', keys: ['k'], under: [], waitMs: 0, ...times, isOver: true, ...other };
}

describe('the checker of a history', () => {
  const broken = (...holds: HoldRecord[]) => checkExclusion(historyOf({ holds })).length;

  it('finds two that believe in one lock at once', () => {
    expect(broken(hold(), hold({ process: 'P1', from: 1999 }))).toBe(1);
    expect(broken(hold(), hold({ process: 'P1', from: 2000 }))).toBe(0);
    expect(broken(hold(), hold({ process: 'P1', from: 1500, key: 'another' }))).toBe(0);
  });

  it('finds a reader beside a writer, and lets readers be together', () => {
    const reader = hold({ claim: 'shared' });
    expect(broken(reader, hold({ process: 'P1', from: 1500, claim: 'shared' }))).toBe(0);
    expect(broken(reader, hold({ process: 'P1', from: 1500 }))).toBe(1);
  });

  it('finds work that takes no time while another holder believes', () => {
    const atOnce = (from: number) => hold({ process: 'P1', from, endedAt: from });
    expect(broken(hold(), atOnce(1500))).toBe(1);
    expect([broken(hold(), atOnce(1000)), broken(hold(), atOnce(2000))]).toEqual([0, 0]);
    const brokenBy = (...samples: Sample[]) => broken(hold({ samples }), atOnce(1500));
    expect(brokenBy(sample(1000, 5000), sample(1500, 5000))).toBe(1);
    expect(brokenBy(sample(1000, 5000), sample(1500, 0))).toBe(0);
    const permitsBeside = (endedAt: number) =>
      broken(hold({ claim: 'permits', endedAt }), { ...atOnce(1500), claim: 'permits' });
    expect([permitsBeside(2000), permitsBeside(1500)]).toEqual([1, 0]);
  });

  it('finds more permits than there are', () => {
    const permit = { claim: 'permits', permits: 2 } as const;
    const two = [hold(permit), hold({ ...permit, process: 'P1', from: 1100 })];
    expect(broken(...two)).toBe(0);
    expect(broken(...two, hold({ ...permit, process: 'P2', from: 1200 }))).toBeGreaterThan(0);
    const one = hold({ claim: 'permits', permits: 1, from: 1200, token: 1050 });
    expect(broken(hold({ ...permit, process: 'P1', from: 1100 }), one)).toBe(0);
    expect(broken(hold({ ...permit, process: 'P1', from: 1100, token: 1040 }), one)).toBe(1);
  });

  it('finds a holder of permits that believes again when others have them', () => {
    const permit = { claim: 'permits', permits: 2 } as const;
    const others = [1400, 1450].map((from) => hold({ ...permit, process: `P${from}`, from }));
    const brokenBy = (...samples: Sample[]) => broken(hold({ ...permit, samples }), ...others);
    expect(brokenBy(sample(1000, 300))).toBe(0);
    expect(brokenBy(sample(1000, 300), sample(1800, 200))).toBe(1);
  });

  it('knows that a holder no longer believes in a lease that is over, or that it was told is in doubt', () => {
    const short = hold({ samples: [sample(1000, 300)] });
    expect(broken(short, hold({ process: 'P1', from: 1301 }))).toBe(0);
    expect(broken(short, hold({ process: 'P1', from: 1290 }))).toBe(1);
    const samples = [sample(1000, 5000), sample(1200, 0)];
    expect(broken(hold({ samples }), hold({ process: 'P1', from: 1201 }))).toBe(0);
  });

  it('knows that a process that is stopped does nothing, and finds what it believes when it goes on', () => {
    const later = hold({ process: 'P1', from: 1300, endedAt: 1400 });
    const stopped = (history: History) =>
      history.pauses.push({ process: 'P0', kind: 'stop', from: 1200, to: 1500 });
    const calm = historyOf({ holds: [hold(), later] });
    stopped(calm);
    expect(checkExclusion(calm)).toHaveLength(0);
    const bad = historyOf({ holds: [hold(), { ...later, endedAt: 1600 }] });
    stopped(bad);
    expect(checkExclusion(bad)).toHaveLength(1);
  });

  it('knows that a clock that is set back by as much as the machine sleeps hides the sleep for a second', () => {
    const later = hold({ process: 'P1', from: 4000, endedAt: 6000 });
    const brokenBy = (setByMs: number, endedAt: number, setLater = 0) => {
      const samples = [sample(1000, 5000), sample(4500, 3000)];
      const history = historyOf({ holds: [hold({ samples, endedAt }), later] });
      history.pauses.push({ process: 'P0', kind: 'clock', from: 1200, to: 1200, setByMs });
      history.pauses.push({ process: 'P0', kind: 'suspend', from: 1200, to: 4500 });
      if (setLater > 0)
        history.pauses.push({ process: 'P0', kind: 'clock', from: 5450, to: 5450, setByMs: setLater });
      return checkExclusion(history).length > 0;
    };
    expect([brokenBy(-3250, 5400), brokenBy(-3250, 5600), brokenBy(-3000, 5400)]).toEqual([
      false,
      true,
      true,
    ]);
    expect(brokenBy(-3250, 5400, 7000)).toBe(false);
  });

  it('finds one that believes again once another was granted its lock', () => {
    const samples = [sample(1000, 300), sample(1800, 200)];
    const between = hold({ process: 'P1', from: 1400, endedAt: 1500 });
    expect(broken(hold({ samples }), between)).toBe(1);
    expect(broken(hold({ samples: samples.slice(0, 1) }), between)).toBe(0);
    expect(broken(hold({ samples, claim: 'shared' }), { ...between, claim: 'shared' })).toBe(0);
    const history = historyOf({ holds: [hold({ samples }), { ...between, owner: 'a' }] });
    history.losses = [lossOf({ at: 1300, to: 1300 })];
    expect(checkExclusion(history)).toEqual([]);
    // The other was let in after a pause, with a lock that was over.
    expect(broken(hold({ samples }), { ...between, samples: [sample(1400, 0)] })).toBe(0);
  });

  it('finds one that believes again after another that has stood still since it was let in', () => {
    const own = hold({ samples: [sample(1000, 300), sample(1800, 200)] });
    const history = historyOf({ holds: [own, hold({ process: 'P1', from: 1400, endedAt: 9000 })] });
    history.pauses.push({ process: 'P1', kind: 'block', from: 1400, to: 9000 });
    expect(checkExclusion(history)).toHaveLength(1);
  });

  it('finds one that believes again after a force on the other, which brings back no lock as lost data may', () => {
    const brokenBy = (disturb: (history: History) => void) => {
      const own = hold({ samples: [sample(1000, 300), sample(1800, 200)] });
      const later = hold({ process: 'P1', from: 1400, endedAt: 1700, owner: 'a' });
      const history = historyOf({ holds: [own, later] });
      disturb(history);
      return checkExclusion(history).length;
    };
    const force = { kind: 'force', at: 1600, to: 1700, key: 'k', owner: 'a', executedBy: 1700 };
    expect(brokenBy((history) => history.disturbances.push(force))).toBe(1);
    expect(brokenBy((history) => (history.losses = [lossOf({ at: 1600 })]))).toBe(0);
  });

  it('finds one that lost its lock by force and believes in it after the next renewal', () => {
    const brokenBy = (againAt: number, leaseMs?: number) => {
      const samples = [1000, againAt].map((at) => sample(at, 100));
      const own = hold({ samples, endedAt: 20_000, ...(leaseMs && { leaseMs }) });
      const history = historyOf({ holds: [own, hold({ process: 'P1', from: 1400, endedAt: 1500 })] });
      history.disturbances.push({ kind: 'force', at: 1300, to: 6300, key: 'k', executedBy: 1300 });
      return checkExclusion(history, 3000).length;
    };
    expect([brokenBy(9000), brokenBy(4000), brokenBy(9000, 10_000)]).toEqual([1, 0, 0]);
  });

  it('excuses a sleep that a clock hides which was set back by as much, for a second, and no other sleep', () => {
    const samples = [sample(1000, 5000), sample(2600, 900)];
    const brokenBy = (setByMs: number, from = 2610) => {
      const later = hold({ process: 'P1', from, endedAt: from + 40 });
      const history = historyOf({ holds: [hold({ samples, endedAt: 9000 }), later] });
      history.pauses.push({ process: 'P0', kind: 'clock', from: 1100, to: 1100, setByMs });
      history.pauses.push({ process: 'P0', kind: 'suspend', from: 1100, to: 2600 });
      return checkExclusion(history).length;
    };
    expect([brokenBy(-1450), brokenBy(-1300), brokenBy(-6000), brokenBy(0)]).toEqual([0, 1, 1, 1]);
  });

  it('excuses what a force on its key can have taken, and neither what came before it nor another key', () => {
    const brokenBy = (force: Partial<Disturbance>, others: Partial<HoldRecord> = {}) => {
      const holds = [hold(others), hold({ ...others, process: 'P1', from: 1500 })];
      const history = historyOf({ holds });
      const forced = { kind: 'force', at: 1490, to: 2000, key: 'k', executedBy: 1500, ...force };
      history.disturbances.push(forced);
      return checkExclusion(history).length > 0;
    };
    expect(brokenBy({})).toBe(false);
    expect(brokenBy({ at: 900, executedBy: 950 })).toBe(true);
    expect(brokenBy({ at: 1600, executedBy: 1700 })).toBe(true);
    expect(brokenBy({ key: 'another' })).toBe(true);
    expect(brokenBy({}, { claim: 'permits' })).toBe(false);
    expect(brokenBy({ key: 'another' }, { claim: 'permits' })).toBe(true);
  });

  it('finds one who believes again, unless the other was let in while a sleep was hidden from it', () => {
    const brokenBy = (process: string, endedAt = 1500, again = endedAt + 300) => {
      const samples = [sample(1000, 300), sample(again, 200)];
      const between = hold({ process: 'P1', from: 1400, endedAt });
      const history = historyOf({ holds: [hold({ samples, endedAt: 9000 }), between] });
      history.pauses.push({ process, kind: 'clock', from: 1100, to: 1100, setByMs: -250 });
      history.pauses.push({ process, kind: 'suspend', from: 1100, to: 1350 });
      return checkExclusion(history).length;
    };
    expect([brokenBy('P1'), brokenBy('P2')]).toEqual([0, 1]);
    // It goes on for longer than the second for which a sleep is hidden.
    expect([brokenBy('P1', 2300), brokenBy('P1', 2400), brokenBy('P1', 2400, 2000)]).toEqual([0, 1, 0]);
  });

  it('excuses one beside a lease that a server has lost, for as long as that lease would have lasted', () => {
    const holds = [hold({ owner: 'a' }), hold({ process: 'P1', from: 1500, owner: 'b' })];
    const brokenBy = (loss: Partial<Loss>) => {
      const history = historyOf({ holds });
      history.losses = [lossOf(loss)];
      return checkExclusion(history).length;
    };
    expect(brokenBy({})).toBe(0);
    expect(brokenBy({ at: 1600 })).toBe(1);
    expect(brokenBy({ leases: [{ key: 'k', owner: 'a', until: 1700, keptUntil: -Infinity }] })).toBe(1);
    expect(brokenBy({ leases: [{ key: 'k', owner: 'c', until: 6000, keptUntil: -Infinity }] })).toBe(1);
    expect(brokenBy({ isGuarded: true })).toBe(1);
  });

  it('finds a grant that a promoted replica must have and does not', () => {
    const brokenBy = (loss: Partial<Loss>) => {
      const history = historyOf({ holds: [hold({ owner: 'a' })] });
      history.losses = [lossOf(loss)];
      return checkFailover(history, { watchdogTimeoutMs: 5000, earlyMs: 1700, answerMs: 1000 }).length;
    };
    expect(brokenBy({ isCovered: true })).toBe(1);
    expect(brokenBy({ isCovered: false })).toBe(0);
    expect(brokenBy({ isCovered: true, at: 2500 })).toBe(0);
    expect(
      brokenBy({ isCovered: true, leases: [{ key: 'k', owner: 'a', until: 6500, keptUntil: 6000 }] }),
    ).toBe(0);
  });

  it('knows that one that has paused since it asked, or has a short lease, may hold by a renewal that no replica has', () => {
    const brokenAfter = (pausedTo: number, other: Partial<HoldRecord> = {}) => {
      const own = hold({ owner: 'a', ...other });
      const history = historyOf({
        holds: [own],
        calls: [call({ call: own.call, askedAt: 900, settledAt: 1000 })],
      });
      history.pauses.push({ process: 'P0', kind: 'clock', from: pausedTo, to: pausedTo });
      const leases = [{ key: 'k', owner: 'a', until: 6500, keptUntil: 5500 }];
      history.losses = [lossOf({ isCovered: true, leases })];
      return checkFailover(history, { watchdogTimeoutMs: 5000, earlyMs: 1700, answerMs: 1000 }).length;
    };
    expect([brokenAfter(950), brokenAfter(850), brokenAfter(850, { leaseMs: 900 })]).toEqual([0, 1, 0]);
  });

  it('takes nested calls that share what is left of a lost list for one holder, and no others', () => {
    const brokenBy = (claim: HoldRecord['claim'], shares: boolean) => {
      const common = { claim, token: 7, weight: 2, permits: 3 } as const;
      const list = hold({ ...common, endedAt: 1400, end: 'lost' });
      const share = shares ? { sharedFrom: list } : {};
      const nested = [1500, 1600].map((from) => hold({ ...common, ...share, from, endedAt: 2000 }));
      const history = historyOf({ holds: [list, ...nested] });
      return new Set([...checkExclusion(history), ...checkTokens(history)].map(({ rule }) => rule));
    };
    for (const claim of ['exclusive', 'permits'] as const) {
      expect([...brokenBy(claim, true)]).toEqual([]);
      expect([...brokenBy(claim, false)]).toEqual(['exclusion', 'tokens']);
    }
  });

  it('finds smaller tokens after a loss, but of one who holds a lost lock or whose server has a clock that is behind', () => {
    const brokenBy = (owner: string, loss: Partial<Loss>) => {
      const later = hold({ process: 'P1', from: 3000, token: 6, owner });
      const history = historyOf({ holds: [hold({ token: 7, owner: 'P0:1' }), later] });
      history.losses = [
        lossOf({ leases: [{ key: 'k', owner: 'a:1', until: 6000, keptUntil: -Infinity }], ...loss }),
      ];
      return checkTokens(history).length;
    };
    expect(brokenBy('b:1', {})).toBe(1);
    expect(brokenBy('a:1', {})).toBe(0);
    expect(brokenBy('b:1', { isBehind: true })).toBe(0);
    expect(brokenBy('P0:2', { isBehind: true })).toBe(1);
  });

  it('finds a later grant with a smaller token', () => {
    const check = (token: number) =>
      checkTokens(historyOf({ holds: [hold({ token: 7 }), hold({ process: 'P1', from: 3000, token })] }))
        .length;
    expect([check(6), check(7), check(8)]).toEqual([1, 1, 0]);
  });

  it('finds a call that settles long after its waitMs, without the pauses of its process', () => {
    const late = call({ waitMs: 1000, settledAt: 3000, settledAtOwn: 3000 });
    expect(checkLateness(historyOf({ calls: [late] }), DEADLINES)).toHaveLength(1);
    const history = historyOf({ calls: [late] });
    history.pauses.push({ process: 'P0', kind: 'stop', from: 500, to: 2500 });
    expect(checkLateness(history, DEADLINES)).toHaveLength(0);
    // A store that takes the requests of a process for one key in order has those of another call first.
    const [one, other] = [call({ waitMs: 1000, settledAt: 3000, settledAtOwn: 3000 }), call({ call: '2' })];
    const inOrder = { ...DEADLINES, sendsInOrder: true };
    expect(checkLateness(historyOf({ calls: [one, other] }), inOrder)).toHaveLength(0);
    expect(checkLateness(historyOf({ calls: [one, { ...other, process: 'P1' }] }), inOrder)).toHaveLength(1);
  });

  it('finds a call that is refused before its waitMs is over', () => {
    const check = (settledAtUptime: number) => {
      const error = new LockWaitTimeoutError('k', 1000);
      return checkEarliness(historyOf({ calls: [call({ waitMs: 1000, error, settledAtUptime })] })).length;
    };
    expect([check(500), check(1010)]).toEqual([1, 0]);
  });

  it('finds a key that is free while somebody waits for it', () => {
    const waiting = call({ waitMs: Infinity, settledAt: 40_000, settledAtOwn: 40_000 });
    const check = (holds: readonly HoldRecord[], tooFewReplicas: readonly number[] = []) => {
      const history = historyOf({ calls: [waiting], holds });
      history.tooFewReplicas = tooFewReplicas;
      return checkStarvation(history, { longestMs: 10_000, commandTimeoutMs: 500, roundTripMs: 20 }).length;
    };
    expect(check([])).toBe(1);
    expect(check([hold({ process: 'P1', from: 10, endedAt: 39_000 })])).toBe(0);
    // It is granted again and again, and its replicas are too slow; then nobody asks for it any more.
    expect(check([], [10_000, 20_000, 30_000])).toBe(0);
    expect(check([], [1000, 2000])).toBe(1);
  });

  it('finds a call that is told that a free key is not free', () => {
    const times = { handOffMs: 100, commandTimeoutMs: 500, longestMs: 10_000 };
    const check = (...holds: HoldRecord[]) => {
      const refused = call({ process: 'P1', askedAt: 5000, settledAt: 5100, isRefused: true });
      return checkRefusal(historyOf({ calls: [refused], holds }), times).length;
    };
    expect(check()).toBe(1);
    expect(check(hold({ from: 4000, endedAt: 4800, end: 'released' }))).toBe(1);
    expect(check(hold({ from: 4000, endedAt: 4950, end: 'released' }))).toBe(0);
    // A nested call that shares it goes on.
    expect(check(hold({ from: 4000, endedAt: 4800, end: 'released', lockedUntil: 4950 }))).toBe(0);
    expect(check(hold({ from: 4000, endedAt: 4800, end: 'lost' }))).toBe(0);
  });

  it('finds a call that is refused for an owner who had given the key up before', () => {
    const error = new LockWaitTimeoutError('k', 0, 'P0:1', 500);
    const refused = call({ process: 'P1', askedAt: 5000, settledAt: 5100, holdersThen: [], error });
    const given = hold({ from: 4000, endedAt: 4800, end: 'released', owner: 'P0:1' });
    const check = (asked: Partial<CallRecord>, ...others: CallRecord[]) =>
      checkStaleRefusal(historyOf({ calls: [{ ...refused, ...asked }, ...others], holds: [given] })).length;
    expect(check({})).toBe(1);
    expect(check({ holdersThen: ['P0:1'] })).toBe(0);
    expect(check({ error: new LockWaitTimeoutError('k', 0, 'P0:2', 500) })).toBe(0);
    // Behind a caller of its own process it does not ask.
    expect(check({}, call({ call: '2', process: 'P1', askedAt: 4900, settledAt: 6000 }))).toBe(0);
    expect(check({}, call({ call: '2', process: 'P2', askedAt: 4900, settledAt: 6000 }))).toBe(1);
    // A process that wakes up has not heard yet that its own hold is over.
    expect(check({ process: 'P0', askedAt: 4800 })).toBe(0);
    expect(check({ process: 'P0' })).toBe(1);
  });

  it('finds a release that leaves its waiter to a recheck or to the end of a lease', () => {
    const times = { handOffMs: 100, commandTimeoutMs: 500, longestMs: 10_000 };
    const gotAt = (settledAt: number, disturb: (history: History) => void = () => undefined) => {
      const waiting = call({ process: 'P1', waitMs: Infinity, askedAt: 1500, settledAt });
      const history = historyOf({ calls: [waiting], holds: [hold({ end: 'released' })] });
      disturb(history);
      return checkHandOff(history, times).length;
    };
    expect([gotAt(2140), gotAt(2900)]).toEqual([0, 1]);
    const hold1 = (history: History) => history.disturbances.push({ kind: 'hold', at: 1600, to: 2500 });
    expect([gotAt(9000, hold1), gotAt(9900, hold1)]).toEqual([0, 1]);
    const crash = (history: History) => history.disturbances.push({ kind: 'crash', at: 1600, to: 1600 });
    expect(gotAt(9900, crash)).toBe(0);
  });

  it('knows that a server without its data grants nothing from the first request on, for as long as its guard says', () => {
    const times = { handOffMs: 100, commandTimeoutMs: 500, longestMs: 0, guardMs: 10_000 };
    const error = new LockStoreError('not ready', 'k', 'unready');
    const waits = (settledAt: number, loss: Partial<Loss>) => {
      const waiting = call({ waitMs: Infinity, askedAt: 50_000, settledAt, error });
      const history = historyOf({ calls: [waiting] });
      history.losses = [lossOf(loss)];
      return [
        checkHandOff(history, times).length,
        checkNeedlessFailure(history, { ...times, roundTripMs: 20 }).length,
      ];
    };
    expect(waits(60_500, { isGuarded: true })).toEqual([0, 0]);
    expect(waits(63_000, { isGuarded: true })).toEqual([1, 0]);
    expect(waits(60_500, { isGuarded: false })).toEqual([1, 1]);
  });

  it('finds a smaller token after an eviction, unless the clock was set back and the process has seen none', () => {
    const check = ({ evictedAt = 2500, isSetBack = true, hasSeen = false }) => {
      const b = hold({ process: 'P1', owner: 'p1:2', from: 3000, token: 999 });
      const seen = hold({ process: 'P1', owner: 'p1:1', from: 2100, token: 1001, key: 'another' });
      const holds = [hold({ owner: 'p0:1' }), b, ...(hasSeen ? [seen] : [])];
      const history = historyOf({ holds });
      history.disturbances.push({ kind: KEY_EVICTED, at: evictedAt, to: evictedAt });
      if (isSetBack) history.disturbances.push({ kind: 'server clock', at: 2000, to: 2000 });
      return checkTokens(history).length;
    };
    expect(check({})).toBe(0);
    expect(check({ evictedAt: 900 })).toBe(1);
    expect(check({ isSetBack: false })).toBe(1);
    expect(check({ hasSeen: true })).toBe(1);
  });

  it('finds a lock that the watchdog has lost for nothing', () => {
    const lost = (other: Partial<HoldRecord> = {}) => historyOf({ holds: [hold({ end: 'lost', ...other })] });
    const check = (history: History) =>
      checkNeedlessLoss(history, { watchdogTimeoutMs: 10_000, commandTimeoutMs: 500, roundTripMs: 20 })
        .length;
    expect(check(lost())).toBe(1);
    expect(check(lost({ leaseMs: 900 }))).toBe(0);
    const stopped = lost();
    stopped.pauses.push({ process: 'P0', kind: 'stop', from: 1100, to: 1900 });
    expect(check(stopped)).toBe(0);
    const cut = lost();
    cut.disturbances.push({ kind: 'cut', at: 500, to: 1500 });
    expect(check(cut)).toBe(0);
    const lose = (times: number) => {
      const history = lost();
      for (let i = 0; i < times; i++) history.disturbances.push({ kind: 'lose', at: 900 + i, to: 1400 });
      return history;
    };
    expect([check(lose(1)), check(lose(2))]).toEqual([1, 0]);
    // A takeover may come to force against a holder whose connection for notices has been silent since long before.
    const takenOver = (silent?: string) => {
      const taker = call({ process: 'P1', graceMs: 100, askedAt: 30_100, settledAt: 30_900 });
      const history = historyOf({ holds: [hold({ from: 30_000, end: 'lost' })], calls: [taker] });
      if (silent) history.disturbances.push({ kind: 'lose', at: 1000, to: 1500, process: silent });
      return history;
    };
    expect([check(takenOver()), check(takenOver('P0')), check(takenOver('P1'))]).toEqual([1, 0, 1]);
  });

  it.each([
    ['a release', { end: 'released' }],
    ['a shutdown', { end: 'lost', lostBy: 'shutdown' }],
  ] as const)('finds a key that is granted before its minimum hold is over after %s', (_, end) => {
    const first = hold({ holdAtLeastMs: 3000, ...end });
    const check = (from: number) =>
      checkMinimumHold(historyOf({ holds: [first, hold({ process: 'P1', from })] }), 10).length;
    expect([check(3500), check(4001)]).toEqual([1, 0]);
    const lost = (isShortened: boolean) => {
      const holds = [{ ...first, isShortened }, hold({ process: 'P1', from: 3500 })];
      const history = historyOf({ holds });
      history.disturbances.push({ kind: 'lose', at: 2000, to: 2500 });
      return checkMinimumHold(history, 10).length;
    };
    expect([lost(false), lost(true)]).toEqual([1, 0]);
  });

  it('finds a minimum hold that ends with the fixed lease of its holder, unless the release may come too late', () => {
    const check = (lostBy: HoldRecord['lostBy'], roundTripMs: number) => {
      const first = hold({ holdAtLeastMs: 3000, leaseMs: 2000, end: 'lost', lostBy, isShortened: true });
      const holds = [first, hold({ process: 'P1', from: 3500 })];
      return checkMinimumHold(historyOf({ holds }), roundTripMs).length;
    };
    expect([check('expired', 19), check('expired', 20), check('taken', 19)]).toEqual([1, 0, 0]);
  });

  it('excuses a minimum hold whose session has expired, and no other session', () => {
    const holds = [
      hold({ holdAtLeastMs: 3000, end: 'released', owner: 'a:1' }),
      hold({ process: 'P1', from: 3500 }),
    ];
    const check = (client: string, at: number) => {
      const history = historyOf({ holds });
      history.expired = [{ client, at }];
      return checkMinimumHold(history, 10).length;
    };
    expect([check('a', 3000), check('b', 3000), check('a', 900)]).toEqual([0, 1, 1]);
  });

  it('finds a fair caller that is overtaken by one that asked later', () => {
    const fair = (n: number, process: string, askedAt: number) =>
      call({ call: `${n}`, process, isFair: true, askedAt, settledAt: 9000 });
    const held = (n: number, process: string, from: number) => hold({ call: `${n}`, process, from });
    const check = (askedAt: number, other: Partial<History> = {}) => {
      const calls = [fair(1, 'P0', 100), fair(2, 'P1', askedAt)];
      const history = historyOf({ calls, holds: [held(2, 'P1', 3000), held(1, 'P0', 5000)] });
      history.disturbances.push(...(other.disturbances ?? []));
      return checkOrder(history, 20).length;
    };
    expect([check(161), check(150)]).toEqual([1, 0]);
    expect(check(161, { disturbances: [{ kind: 'reset', at: 2000, to: 2000 }] })).toBe(0);
  });

  it('finds a process that is overtaken by one that joined the queue later', () => {
    const asked = (process: string, askedAt: number, n = process) =>
      call({ call: n, process, waitMs: 9000, askedAt, settledAt: 9000 });
    const held = (process: string, from: number, other: Partial<HoldRecord> = {}) =>
      hold({ call: process, process, from, ...other });
    const check = (calls: readonly CallRecord[], ...holds: HoldRecord[]) =>
      checkTurns(historyOf({ calls, holds }), 20).length;
    const two = [asked('P0', 100), asked('P1', 161)];
    expect(check(two, held('P1', 3000), held('P0', 5000))).toBe(1);
    expect(check([asked('P0', 100), asked('P1', 150)], held('P1', 3000), held('P0', 5000))).toBe(0);
    // Two readers enter together, and are told in any order. A writer that came later may not enter before them.
    const reader = { claim: 'shared' } as const;
    expect(check(two, held('P1', 3000, reader), held('P0', 3010, reader))).toBe(0);
    expect(check(two, held('P1', 3000), held('P0', 3030, reader))).toBe(1);
    // Another caller of its process joined the queue before.
    const earlier = call({ call: '3', process: 'P1', askedAt: 50, settledAt: 8000, waitMs: 9000 });
    expect(check([...two, earlier], held('P1', 3000), held('P0', 5000))).toBe(0);
  });

  it('finds a waiter that comes back and has lost its place to a process that joined the queue after it', () => {
    const asked = (process: string, askedAt: number, other: Partial<CallRecord> = {}) =>
      call({ call: process, process, waitMs: 90_000, askedAt, settledAt: 60_000, ...other });
    const held = (process: string, from: number) => hold({ call: process, process, from });
    const away = { process: 'P1', kind: 'stop', from: 1000, to: 5000 } as const;
    const check = (
      [later = asked('P2', 2000), first = asked('P1', 100)]: readonly CallRecord[] = [],
      { at = 12_000, disturbances = [] }: { at?: number; disturbances?: readonly Disturbance[] } = {},
    ) => {
      const holds = [held('P2', at), held('P1', at + 2000)];
      const history = historyOf({ calls: [first, later], holds });
      history.pauses.push(away);
      history.disturbances.push(...disturbances);
      return checkKeptPlaces(history, { handOffMs: 20, roundTripMs: 5 }).length;
    };
    expect(check()).toBe(1);
    // The other one gets the key while the first one may still be away, or had asked about as early.
    expect(check([], { at: 10_900 })).toBe(0);
    expect(check([asked('P2', 190)])).toBe(0);
    expect(check([asked('P2', 210)])).toBe(1);
    // One that takes the key over goes ahead of all that wait, and one that had not its ticket before it went away has no place.
    expect(check([asked('P2', 2000, { graceMs: 10 })])).toBe(0);
    expect(check([asked('P2', 2000), asked('P1', 950)])).toBe(0);
    // Connections may break. A server that has forgotten the queue may give out smaller tickets.
    const happens = (kind: string) => check([], { disturbances: [{ kind, at: 3000, to: 3000 }] });
    expect([happens('reset'), happens('cut'), happens('forget'), happens('lose')]).toEqual([1, 1, 0, 0]);
  });

  it('finds a flow that waits for itself, and one that is refused for a circle that is none', () => {
    const has = (key: string, endedAt = 9000) => [hold({ key, endedAt })];
    const waits = (n: string, key: string, of: string, askedAt: number, other: Partial<CallRecord> = {}) =>
      call({
        call: n,
        service: 0,
        keys: [key],
        under: has(of),
        waitMs: 5000,
        askedAt,
        settledAt: 8000,
        ...other,
      });
    const check = (...calls: CallRecord[]) => checkDeadlocks(historyOf({ calls })).length;
    const refused = { settledAt: 200, error: new LockDeadlockError('', 'a', ['a', 'b']) };
    const first = waits('1', 'b', 'a', 100);
    expect(check(first, waits('2', 'a', 'b', 200, refused))).toBe(0);
    expect(check(first, waits('2', 'a', 'b', 200))).toBe(1);
    expect(check({ ...first, waitMs: 0 }, waits('2', 'a', 'b', 200))).toBe(0);
    expect(check(first, waits('2', 'a', 'b', 200, { service: 1 }))).toBe(0);
    expect(check(first, waits('2', 'a', 'b', 200, { under: has('b', 150) }))).toBe(0);
    expect(check(waits('2', 'a', 'b', 200, refused))).toBe(1);
    expect(check({ ...first, settledAt: 150 }, waits('2', 'a', 'b', 200, refused))).toBe(1);
    // One that has acquired the first of its keys waits for the second.
    expect(check(call({ ...first, keys: ['a', 'b'], under: [] }), waits('2', 'a', 'b', 200, refused))).toBe(
      0,
    );
    const [second, third] = [waits('3', 'c', 'b', 150), waits('4', 'a', 'c', 200)];
    expect(check(first, second, third)).toBe(1);
    const error = new LockDeadlockError('', 'a', ['a', 'b', 'c']);
    expect(check(first, second, { ...third, settledAt: 200, error })).toBe(0);
  });

  it('lets a call fail by its store only when something has happened', () => {
    const error = new LockStoreError('no answer', 'k', 'unknown');
    const check = (disturb: (history: History) => void) => {
      const history = historyOf({ calls: [call({ error, askedAt: 10_000, settledAt: 11_000 })] });
      disturb(history);
      return checkNeedlessFailure(history, { commandTimeoutMs: 500, roundTripMs: 20, longestMs: 10_000 })
        .length;
    };
    expect(check(() => undefined)).toBe(1);
    expect(check(({ disturbances }) => disturbances.push({ kind: 'cut', at: 9000, to: 9500 }))).toBe(0);
    expect(check(({ disturbances }) => disturbances.push({ kind: 'cut', at: 12_000, to: 13_000 }))).toBe(1);
    expect(check((history) => (history.tooFewReplicas = [10_500]))).toBe(0);
  });

  it('lets a call be refused for the kind of its lock only while the key is in use as the other kind', () => {
    const refused = new LockStoreError('in use as permits', 'k', 'refused');
    const times = { commandTimeoutMs: 500, roundTripMs: 20, longestMs: 10_000 };
    const check = (user: Partial<CallRecord>, holds: readonly HoldRecord[] = [], error = refused) => {
      const asking = call({ error, askedAt: 20_000, settledAt: 20_100 });
      const using = call({ call: 'P1 at 1000', process: 'P1', ...user });
      return checkNeedlessFailure(historyOf({ calls: [asking, using], holds }), times).length;
    };
    const permits = { ofPermits: ['k'] };
    const until = (endedAt: number) => [hold({ process: 'P1', claim: 'permits', endedAt })];
    expect(check(permits, until(21_000))).toBe(0);
    expect(check({}, until(21_000))).toBe(1);
    expect(check({ ...permits, keys: ['another'] }, until(21_000))).toBe(1);
    expect(check(permits, until(21_000), new LockStoreError('no answer', 'k', 'unknown'))).toBe(1);
    // The lease of one that is gone may be left.
    expect(check(permits, until(11_000))).toBe(0);
    expect(check(permits, until(9000))).toBe(1);
    // It waits.
    expect(check({ ...permits, askedAt: 19_000, settledAt: 21_000 })).toBe(0);
  });

  it('finds a holder whose signal does not tell it that another was granted its lock', () => {
    const check = (
      endedAt: number,
      other: Partial<HoldRecord> = {},
      disturb?: (history: History) => void,
    ) => {
      const history = historyOf({
        holds: [
          hold({ endedAt, samples: [sample(1000, 2000)] }),
          hold({ process: 'P1', from: 4000, ...other }),
        ],
      });
      disturb?.(history);
      return checkNotified(history, 3000).length;
    };
    expect([check(5000), check(5200)]).toEqual([0, 1]);
    expect(check(5200, { samples: [sample(4000, 0)] })).toBe(0);
    expect(check(5200, { key: 'another' })).toBe(0);
    const stop = (process: string) => (history: History) =>
      history.pauses.push({ process, kind: 'stop', from: 3000, to: 4500 });
    expect([check(5600, {}, stop('P0')), check(5601, {}, stop('P0'))]).toEqual([0, 1]);
    expect(check(5600, {}, stop('P1'))).toBe(1);
    // After a sleep it may ask the store, and its messages may be kept from it.
    const sleep = (history: History): void => {
      history.commandTimeoutMs = 500;
      history.pauses.push({ process: 'P0', kind: 'suspend', from: 3000, to: 4500 });
    };
    const cut = (history: History): void => {
      sleep(history);
      history.disturbances.push({ kind: 'cut', at: 4500, to: 6000, process: 'P0' });
    };
    expect([check(6600, {}, sleep), check(6601, {}, sleep)]).toEqual([0, 1]);
    expect([check(8600, {}, cut), check(8601, {}, cut)]).toEqual([0, 1]);
    const force = (history: History) =>
      history.disturbances.push({ kind: 'force', at: 3900, to: 3950, key: 'k', executedBy: 3950 });
    expect(check(5200, {}, force)).toBe(0);
    // The signal of a lock for several keys has aborted before, by the takeover of another of them.
    const signal = ({ holds: [first] }: History) => Object.assign(first as HoldRecord, { signalledAt: 3000 });
    expect(check(5200, {}, signal)).toBe(0);
  });

  it('finds a call that waits for a key which is in use as the other kind', () => {
    const check = (settledAt: number, other: Partial<HoldRecord>, disturb?: Disturbance) => {
      const history = historyOf({
        calls: [call({ askedAt: 10_000, settledAt })],
        holds: [hold({ process: 'P1', claim: 'permits', endedAt: 20_000, ...other })],
      });
      if (disturb) history.disturbances.push(disturb);
      return checkKinds(history, { answerMs: 2000 }).length;
    };
    expect([check(13_000, {}), check(11_900, {})]).toEqual([1, 0]);
    expect(check(13_000, { claim: 'shared' })).toBe(0);
    expect(check(13_000, { from: 10_100 })).toBe(0);
    expect(check(13_000, { endedAt: 11_000 })).toBe(0);
    expect(check(13_000, {}, { kind: 'cut', at: 9000, to: 9500 })).toBe(0);
  });

  it('knows when a watchdog must have been told that its lock is gone', () => {
    const isTold = (now: number, other: Partial<HoldRecord> = {}, lostAt?: number) => {
      const history = historyOf({});
      history.disturbances.push({ kind: 'force', at: 1000, to: 4000, key: 'k' });
      if (lostAt !== undefined) history.disturbances.push({ kind: 'lose', at: lostAt, to: lostAt + 500 });
      return mustBeTold(history, hold(other), { since: 1000, now, withinMs: 3000 });
    };
    expect([isTold(3900), isTold(4100)]).toEqual([false, true]);
    expect([isTold(4100, {}, 1200), isTold(4800, {}, 1200)]).toEqual([false, true]);
    expect(isTold(9000, { leaseMs: 10_000 })).toBe(false);
  });

  it('finds a call that a drain admits without a lock, and one that it refuses under a lock before its grace is over', () => {
    const shutdown = new LockShutdownError('closing', 'k');
    const brokenBy = (other: Partial<CallRecord>) => {
      const history = historyOf({ calls: [call({ askedAt: 500, settledAt: 501, ...other })] });
      history.drains.push({ process: 'P0', at: 400, graceUntil: 900, graceMs: 500 });
      return checkDrain(history).length;
    };
    const under = [hold({ from: 100, endedAt: 2000 })];
    expect([
      brokenBy({ error: shutdown }),
      brokenBy({}),
      brokenBy({ error: shutdown, settledAt: 600 }),
    ]).toEqual([0, 1, 1]);
    expect([brokenBy({ under }), brokenBy({ under, error: shutdown })]).toEqual([0, 1]);
    expect(brokenBy({ under, error: shutdown, settledAt: 1000 })).toBe(0);
    expect([brokenBy({ process: 'P1' }), brokenBy({ askedAt: 300 })]).toEqual([0, 0]);
    // Its flow has lost its lock.
    const lost = [hold({ from: 100, endedAt: 450 })];
    expect([brokenBy({ under: lost }), brokenBy({ under: lost, error: shutdown })]).toEqual([1, 0]);
  });

  it('finds a holder that loses its lock before the grace of a drain is over', () => {
    const brokenBy = (other: Partial<HoldRecord>, graceUntil = 1900) => {
      const history = historyOf({ holds: [hold({ end: 'lost', lostBy: 'shutdown', ...other })] });
      history.drains.push({ process: 'P0', at: 1400, graceUntil, graceMs: 500 });
      return checkDrain(history).length;
    };
    expect([brokenBy({ endedAt: 1800 }), brokenBy({ endedAt: 1900 })]).toEqual([1, 0]);
    expect(brokenBy({ endedAt: 99_000 }, Infinity)).toBe(1);
    expect([brokenBy({ endedAt: 1800, lostBy: 'taken' }), brokenBy({ process: 'P1' })]).toEqual([0, 0]);
  });

  it('finds a drain without a grace that goes on when nobody holds, which is later where one of several keys was lost', () => {
    const isBroken = (now: number, other: Partial<HoldRecord>) => {
      const history = historyOf({ holds: [hold({ end: 'lost', ...other })] });
      const drain = { process: 'P0', at: 1400, graceUntil: Infinity, graceMs: Infinity };
      checkDrained(history, drain, { now, commandTimeoutMs: 100 });
      return history.violations.length > 0;
    };
    expect([isBroken(2200, {}), isBroken(2300, {})]).toEqual([false, true]);
    expect([isBroken(5200, { lockedUntil: 5000 }), isBroken(5300, { lockedUntil: 5000 })]).toEqual([
      false,
      true,
    ]);
  });

  it('lets a drain without a grace wait for a call whose flow held a lock when it asked', () => {
    const isBroken = (now: number, under: readonly HoldRecord[]) => {
      const lost = hold({ end: 'lost', endedAt: 1500 });
      const waiting = call({ under, askedAt: 1300, settledAt: 5000 });
      const history = historyOf({ holds: [lost], calls: [waiting] });
      const drain = { process: 'P0', at: 1400, graceUntil: Infinity, graceMs: Infinity };
      checkDrained(history, drain, { now, commandTimeoutMs: 100 });
      return history.violations.length > 0;
    };
    expect([isBroken(5200, [hold()]), isBroken(5300, [hold()]), isBroken(5200, [])]).toEqual([
      false,
      true,
      true,
    ]);
  });

  it('lets calls fail with documented errors only', () => {
    const failed = (error: unknown) => checkErrors(historyOf({ calls: [call({ error })] })).length;
    expect(failed(new LockWaitTimeoutError('k', 0))).toBe(0);
    expect(failed(new TypeError('undefined is not a function'))).toBe(1);
  });
});
