import { describe, expect, it } from '@jest/globals';
import { growth, type HistoryRecord } from '../../../chaos/index.mjs';

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

  it('allows what the warm-up takes', () => {
    expect(growth(samples((second) => Math.min(10 + 2 * second, 40) * MB)).findings).toEqual([]);
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
