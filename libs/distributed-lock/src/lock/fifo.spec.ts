import { describe, expect, it } from '@jest/globals';
import { Fifo, type Link } from './fifo.js';

class Item implements Link {
  before: Link | undefined;
  after: Link | undefined;

  constructor(readonly name: string) {}
}

function lineOf(...names: string[]): { line: Fifo<Item>; items: Item[] } {
  const line = new Fifo<Item>();
  const items = names.map((name) => new Item(name));
  for (const item of items) line.push(item);
  return { line, items };
}

const namesOf = (line: Fifo<Item>) => [...line].map(({ name }) => name).join('');

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

  it('lets one leave while it is walked', () => {
    const { line } = lineOf('a', 'b', 'c');
    const seen: string[] = [];
    for (const item of line) {
      seen.push(item.name);
      line.remove(item);
    }
    expect(seen).toEqual(['a', 'b', 'c']);
    expect(line.size).toBe(0);
  });

  it('takes back one that has left, at its end', () => {
    const { line, items } = lineOf('a', 'b');
    line.remove(items[0] as Item);
    line.push(items[0] as Item);
    expect(namesOf(line)).toBe('ba');
  });
});
