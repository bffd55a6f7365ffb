import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { Few } from './few.js';

const ITEMS = [{}, {}, {}];

describe('a set of few', () => {
  it('has what a Set has, whatever is added and deleted', () => {
    const step = fc.record({ adds: fc.boolean(), which: fc.nat({ max: ITEMS.length - 1 }) });
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const [few, set] = [new Few<object>(), new Set<object>()];
        for (const { adds, which } of steps) {
          const change = (items: Few<object> | Set<object>) =>
            adds ? void items.add(ITEMS[which]!) : items.delete(ITEMS[which]!);
          expect(change(few)).toBe(change(set));
          expect([...few]).toEqual([...set]);
          expect(few.size).toBe(set.size);
        }
      }),
    );
  });

  it('may change while it is gone through, as a Set may', () => {
    const few = new Few<object>();
    for (const item of ITEMS) few.add(item);
    const seen: object[] = [];
    for (const item of few) {
      seen.push(item);
      few.delete(item);
    }
    expect([seen, few.size]).toEqual([ITEMS, 0]);
  });
});
