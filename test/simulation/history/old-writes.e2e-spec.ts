import { describe, expect, it } from '@jest/globals';
import { Dice } from '../kernel/dice.js';
import { Kernel } from '../kernel/kernel.js';
import { type Disturbance, History } from './history.js';
import { lastOldWriteAt } from './taken.js';

const FORGOTTEN_AT = 20_000;
const REPAIR_MS = 5000;

/** P0 has released `k` at 10 000, and the servers lose their data at 20 000. */
function check(...disturbances: readonly Disturbance[]): number {
  const history = new History(new Kernel(new Dice('spec')));
  const claim = { claim: 'exclusive', weight: 1, permits: 1, token: 1 } as const;
  history.holds.push({
    call: '1',
    process: 'P0',
    key: 'k',
    ...claim,
    from: 9000,
    endedAt: 10_000,
    samples: [],
  });
  history.disturbances.push(...disturbances);
  return lastOldWriteAt(history, FORGOTTEN_AT, 'k');
}

describe('a release from before the servers have lost their data', () => {
  it('may come afterwards if its process could not send it before', () => {
    const stop: Disturbance = { kind: 'stop server', at: 9900, to: 25_000 };
    expect(check(stop)).toBe(stop.to + REPAIR_MS);
    expect(check({ ...stop, kind: 'cut', process: 'P0' })).toBe(stop.to + REPAIR_MS);
    expect(check({ ...stop, kind: 'cut', process: 'P1' })).toBe(FORGOTTEN_AT);
  });

  it('does not come afterwards if it was sent in time', () => {
    const cut: Disturbance = { kind: 'cut', at: 9000, to: 9500 };
    expect([check(), check(cut), check({ ...cut, at: 16_000, to: 25_000 })]).toEqual([
      FORGOTTEN_AT,
      FORGOTTEN_AT,
      FORGOTTEN_AT,
    ]);
  });
});
