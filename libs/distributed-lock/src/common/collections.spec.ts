import { describe, expect, it } from '@jest/globals';
import { RebuiltMap } from './collections.js';

describe('a map for what comes and goes', () => {
  it('has what a Map has, in the same order, however much has come and gone', () => {
    const [churning, map] = [new RebuiltMap<number, string>(), new Map<number, string>()];
    for (let i = 0; i < 5000; i++) {
      for (const each of [churning, map]) {
        each.set(i, `value ${i}`);
        each.set(i % 7, 'again');
      }
      expect(churning.delete(i - 40)).toBe(map.delete(i - 40));
      expect([...churning.values()]).toEqual([...map.values()]);
    }
    expect(churning.size).toBe(map.size);
    expect([churning.has(4999), churning.get(4999), churning.get(-1)]).toEqual([
      true,
      'value 4999',
      undefined,
    ]);
  });

  it('may be gone through while it changes', () => {
    const map = new RebuiltMap<number, number>();
    for (let i = 0; i < 300; i++) map.set(i, i);
    const seen: number[] = [];
    for (const item of map.values()) {
      seen.push(item);
      map.delete(item);
    }
    expect([seen.length, map.size]).toEqual([300, 0]);
  });
});
