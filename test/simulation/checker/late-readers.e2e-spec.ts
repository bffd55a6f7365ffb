import { describe, expect, it } from '@jest/globals';
import { History, type CallRecord, type HoldRecord } from '../history/history.js';
import { Dice } from '../kernel/dice.js';
import { Kernel } from '../kernel/kernel.js';
import { checkLateReaders } from './late-readers.js';

const HAND_OFF_MS = 20;

function call(name: string, process: string, other: Partial<CallRecord>): CallRecord {
  const times = { askedAt: 0, askedAtOwn: 0, askedAtUptime: 0 };
  return { call: name, process, keys: ['k'], under: [], waitMs: 60_000, ...times, ...other };
}

function hold(name: string, process: string, other: Partial<HoldRecord>): HoldRecord {
  const alone = {
    key: 'k',
    claim: 'shared',
    weight: 1,
    permits: 1,
    token: 1,
    samples: [],
    endedAt: 3000,
  } as const;
  return { ...alone, samples: [], call: name, process, from: 0, ...other };
}

/** P0 reads from 0 to 3000, P1 asks at 500 to write, and another reader of P0 asks later and reads from 1500 on. */
function check(
  { reader = {}, writer = {}, first = {} }: Partial<Changes> = {},
  disturb?: (history: History) => void,
) {
  const history = new History(new Kernel(new Dice('spec')));
  const { askedAt = 1400, ...read } = reader;
  history.calls.push(
    call('1', 'P0', { settledAt: 0 }),
    call('2', 'P1', { askedAt: 500, settledAt: 4000, isForWriter: true, ...writer }),
    call('3', 'P0', { askedAt, settledAt: 1500 }),
  );
  history.holds.push(hold('1', 'P0', first), hold('3', 'P0', { from: 1500, ...read }));
  history.endedAt = 100_000;
  disturb?.(history);
  return checkLateReaders(history, HAND_OFF_MS).length;
}

interface Changes {
  readonly reader: Partial<HoldRecord> & { readonly askedAt?: number };
  readonly writer: Partial<CallRecord>;
  readonly first: Partial<HoldRecord>;
}

describe('readers', () => {
  it('do not enter before a writer that has waited for longer', () => {
    expect([check(), check({ reader: { askedAt: 560 } }), check({ reader: { askedAt: 561 } })]).toEqual([
      1, 0, 1,
    ]);
    expect([check({ writer: { settledAt: 1510 } }), check({ writer: { isCrashed: true } })]).toEqual([0, 0]);
  });

  it('may enter while a writer waits for another of its own process, and beside faults', () => {
    expect(check({ first: { claim: 'exclusive', endedAt: 600 } })).toBe(0);
    const cut = (process: string) =>
      check({}, (history) => history.disturbances.push({ kind: 'cut', at: 600, to: 700, process }));
    expect([cut('P0'), cut('P1'), cut('P2')]).toEqual([0, 0, 1]);
  });
});
