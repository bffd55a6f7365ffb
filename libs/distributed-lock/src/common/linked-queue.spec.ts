import { describe, expect, it } from '@jest/globals';
import { LinkedQueue, Linked } from './collections.js';

class Item extends Linked {
  constructor(readonly name: string) {
    super();
  }
}

function lineOf(...names: string[]): { line: LinkedQueue<Item>; items: Item[] } {
  const line = new LinkedQueue<Item>();
  const items = names.map((name) => new Item(name));
  for (const item of items) line.push(item);
  return { line, items };
}

const namesOf = (line: LinkedQueue<Item>) => [...line].map(({ name }) => name).join('');

describe('a line', () => {
  it('gives back in the order of joining', () => {
    const { line } = lineOf('a', 'b', 'c');
    expect([line.shift()?.name, line.shift()?.name, line.shift()?.name]).toEqual(['a', 'b', 'c']);
    expect(line.shift()).toBeUndefined();
    expect(line.size).toBe(0);
  });

  it.each([
    [0, 'bc'],
    [1, 'ac'],
    [2, 'ab'],
  ])('stays whole when number %i leaves', (index, rest) => {
    const { line, items } = lineOf('a', 'b', 'c');
    line.remove(items[index] as Item);
    expect(namesOf(line)).toBe(rest);
    line.push(new Item('d'));
    expect(namesOf(line)).toBe(`${rest}d`);
    expect(line.size).toBe(3);
  });

  it('is iterated to its end, also within another iteration, whichever entries are removed meanwhile', () => {
    const { line, items } = lineOf('a', 'b', 'c', 'd', 'e', 'f');
    const seen: string[] = [];
    for (const outer of line) {
      seen.push(outer.name);
      if (outer.name !== 'b') continue;
      for (const inner of line) {
        seen.push(inner.name.toUpperCase());
        if (inner.name === 'a') line.remove(items[2] as Item);
        if (inner.name === 'd') line.remove(items[4] as Item);
      }
      line.remove(items[3] as Item);
    }
    expect(seen.join('')).toBe('abABDFf');
  });

  it('takes back one that has left, at its end', () => {
    const { line, items } = lineOf('a', 'b');
    line.remove(items[0] as Item);
    line.push(items[0] as Item);
    expect(namesOf(line)).toBe('ba');
  });

  it('knows its entries, and ignores a second push or removal of the same entry', () => {
    const [{ line, items }, other] = [lineOf('a', 'b'), new LinkedQueue<Item>()];
    const [a, b] = items as [Item, Item];
    line.push(a);
    expect([namesOf(line), line.size]).toEqual(['ab', 2]);
    expect([line.remove(b), line.remove(b), other.remove(a)]).toEqual([true, false, false]);
    expect([line.has(a), line.has(b), other.has(a), line.size]).toEqual([true, false, false, 1]);
  });
});
