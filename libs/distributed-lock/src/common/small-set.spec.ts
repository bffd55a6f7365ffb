import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { SmallSet } from './collections.js';

const ITEMS = [{}, {}, {}];

describe('a small set', () => {
  it('has what a Set has, whatever is added and deleted', () => {
    const step = fc.record({ adds: fc.boolean(), which: fc.nat({ max: ITEMS.length - 1 }) });
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const [small, set] = [new SmallSet<object>(), new Set<object>()];
        for (const { adds, which } of steps) {
          const change = (items: SmallSet<object> | Set<object>) =>
            adds ? void items.add(ITEMS[which]!) : items.delete(ITEMS[which]!);
          expect(change(small)).toBe(change(set));
          expect([...small]).toEqual([...set]);
          expect(small.size).toBe(set.size);
        }
      }),
    );
  });

  it('may change while it is gone through, as a Set may', () => {
    const small = new SmallSet<object>();
    for (const item of ITEMS) small.add(item);
    const seen: object[] = [];
    for (const item of small) {
      seen.push(item);
      small.delete(item);
    }
    expect([seen, small.size]).toEqual([ITEMS, 0]);
  });
});
