import { describe, expect, it } from '@jest/globals';
import { maxOf, minOf } from './collections.js';

describe('the least and the most of many values', () => {
  it('are those of Math.min and Math.max, also of none', () => {
    for (const values of [[], [3], [2, -1, 7], [NaN, 1]])
      expect([minOf(values), maxOf(values)]).toEqual([Math.min(...values), Math.max(...values)]);
  });

  it('are found among more values than a function takes as arguments', () => {
    const values = Array.from({ length: 500_000 }, (_, i) => i);
    expect(() => Math.max(...values)).toThrow(RangeError);
    expect([minOf(values), maxOf(values)]).toEqual([0, 499_999]);
  });
});
