import { describe, expect, it } from '@jest/globals';
import { checkExclusion } from '../checker/exclusion.js';
import { checkTokens } from '../checker/tokens.js';
import { History, type CallRecord, type HoldRecord } from '../history/history.js';
import { Dice } from '../kernel/dice.js';
import { Kernel } from '../kernel/kernel.js';
import { damaged } from './damage.js';
import { exported } from './exported.js';

const PLAN = { store: 'redis', seed: '7' };

function hold(from: number, other: Partial<HoldRecord> = {}): HoldRecord {
  const claim = { claim: 'exclusive', weight: 1, permits: 1 } as const;
  const samples = [{ at: from, validForMs: 5000, until: from + 5000 }];
  const own = { call: `${from}`, process: `P${from}`, key: 'k', owner: `o${from}`, token: from };
  return { ...own, ...claim, from, samples, endedAt: from + 1000, ...other };
}

function callOf({ call, process, key, from }: HoldRecord, other: Partial<CallRecord> = {}): CallRecord {
  const asked = { askedAt: from - 10.5, askedAtOwn: 0, askedAtUptime: 0, settledAt: from };
  return { call, process, keys: [key], waitMs: 0, under: [], ...asked, ...other };
}

function historyOf(...holds: HoldRecord[]): History {
  const history = new History(new Kernel(new Dice('spec')));
  history.holds.push(...holds);
  history.calls.push(...holds.map((it) => callOf(it)));
  history.endedAt = 100_000;
  return history;
}

describe('an exported history', () => {
  it('has all that another judge needs, in µs of true time', () => {
    const history = historyOf(hold(1000), hold(2500, { endedAt: undefined, key: 'other' }));
    history.pauses.push({ process: 'P1000', kind: 'stop', from: 1200, to: 1300.25 });
    const violations = [{ rule: 'tokens', key: 'other', text: '' }];
    const { pauses, keys, ...named } = exported(PLAN, { history, violations });
    expect(named).toEqual(PLAN);
    expect(pauses).toEqual([{ process: 'P1000', kind: 'stop', from: 1_200_000, to: 1_300_250 }]);
    expect(keys.map(({ key, broken }) => [key, broken])).toEqual([
      ['k', []],
      ['other', ['tokens']],
    ]);
    const [first, second] = keys.map(({ holds: [only] }) => only);
    expect(first).toEqual({
      call: '1000',
      process: 'P1000',
      owner: 'o1000',
      claim: 'exclusive',
      weight: 1,
      permits: 1,
      token: 1000,
      asked: 989_500,
      from: 1_000_000,
      ended: 2_000_000,
      samples: [[1_000_000, 6_000_000]],
    });
    expect(second?.ended).toBe(100_000_000);
  });

  it('says what may take a lock from its holder, and for how long', () => {
    const history = historyOf(hold(1000));
    const never = Number.MAX_SAFE_INTEGER;
    history.commandTimeoutMs = 100;
    history.calls.push(callOf(hold(2000), { graceMs: 100, settledAt: undefined }));
    history.disturbances.push({
      kind: 'force',
      at: 1500,
      to: 9000,
      key: 'k',
      owner: 'o1000',
      executedBy: 1600,
    });
    history.disturbances.push({ kind: 'force', at: 1500, to: 9000, key: 'other', executedBy: 1600 });
    const lossesOf = () => exported(PLAN, { history, violations: [] }).keys[0]?.losses;
    expect(lossesOf()).toEqual([
      { kind: 'force', from: 1_500_000, to: 1_600_000, owner: 'o1000' },
      // The grace, 20 ms for clocks and timers, 250 ms and two commands, less 1 %.
      { kind: 'takeover', from: expect.any(Number), to: never, by: ['P2000', '2000'] },
    ]);
    expect(lossesOf()?.[1]?.from).toBeGreaterThan(2_500_000);
    const lease = { key: 'k', owner: 'o1000', until: 6000, keptUntil: -Infinity };
    const loss = { at: 1400, to: 1450, leases: [lease], isCovered: false, isGuarded: false, isBehind: false };
    history.losses = [loss];
    expect(lossesOf()?.[2]).toEqual({ kind: 'forget', from: 1_398_000, to: 6_002_000, owner: 'o1000' });
    history.losses = [{ ...loss, isGuarded: true }];
    expect(lossesOf()).toHaveLength(2);
  });

  it('may be damaged, each time so that the checker finds it, and the other keys are left out', () => {
    const claimed = (claim: 'shared' | 'permits') =>
      [20_000, 20_500].map((from) => hold(from, { claim, permits: 2, key: claim }));
    const history = historyOf(
      hold(1000),
      hold(2500),
      hold(5000),
      ...claimed('shared'),
      ...claimed('permits'),
    );
    const copies = damaged(history, '7');
    const verdicts = copies.map(({ damage, key, history: copy }) => {
      const violations = [...checkExclusion(copy), ...checkTokens(copy)];
      const { keys } = exported(PLAN, { history: copy, violations, damaged: { damage, key } });
      return [damage, keys.length, keys.flatMap(({ broken }) => broken.slice(0, 1))];
    });
    expect([...checkExclusion(history), ...checkTokens(history)]).toEqual([]);
    expect(verdicts).toEqual([
      ['let in too early', 1, ['exclusion']],
      ['believes again', 1, ['exclusion']],
      ['a token twice', 1, ['tokens']],
      ['two tokens swapped', 1, ['tokens']],
      ['a reader that writes', 1, ['exclusion']],
      ['a permit too many', 1, ['exclusion']],
    ]);
  });

  it('is not damaged by what a process would do while it stands still', () => {
    const history = historyOf(hold(1000), hold(2500));
    history.pauses.push({ process: 'P1000', kind: 'stop', from: 2100, to: 9000 });
    const damages = damaged(history, '7').map(({ damage }) => damage);
    expect(damages).toEqual(['let in too early', 'a token twice', 'two tokens swapped']);
  });
});
