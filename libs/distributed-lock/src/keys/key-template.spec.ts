import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { LockConfigurationError, LockKeyError } from '../port/lock.errors.js';
import { valueAtPath, KEY_FILTERS, KeyTemplate, lockKey } from './key-template.js';

const renderBy = (template: KeyTemplate, values: readonly unknown[]): readonly string[] =>
  template.render({ valueOf: (p) => values[template.placeholders.indexOf(p)] });
const render = (text: string, ...values: unknown[]): readonly string[] =>
  renderBy(KeyTemplate.compile(text), values);

describe('a key template', () => {
  it('without placeholders is the key', () => {
    expect(render('job:nightly')).toEqual(['job:nightly']);
  });

  it('puts values in the places of their placeholders', () => {
    expect(render('<a>:goods:<b>', 'x', 42)).toEqual(['x:goods:42']);
    expect(render('<a>/<b>/<c>', 1n, true, 0.5)).toEqual(['1/true/0.5']);
  });

  it('keeps letters, digits and -._~ of a value, and writes every other byte as %XX', () => {
    expect(render('<a>', 'aZ09-._~')).toEqual(['aZ09-._~']);
    expect(render('<a>', "a:b{c}<d>|e%f/g h*i'(j)!")).toEqual([
      'a%3Ab%7Bc%7D%3Cd%3E%7Ce%25f%2Fg%20h%2Ai%27%28j%29%21',
    ]);
    expect(render('<a>', '锁é')).toEqual(['%E9%94%81%C3%A9']);
  });

  it('no two different lists of values make the same key', () => {
    const template = KeyTemplate.compile('g:<a>:<b>:<c>');
    const value = fc.string({ minLength: 1, unit: fc.constantFrom(':', '%', '{', '<', 'a', '3', 'A') });
    const values = fc.tuple(value, value, value);
    const property = fc.property(values, values, (one, other) => {
      const same = one.every((v, i) => v === other[i]);
      return same === (renderBy(template, one)[0] === renderBy(template, other)[0]);
    });
    expect(() => fc.assert(property)).not.toThrow();
  });

  it('of any form that is accepted makes different keys of different values', () => {
    const unit = fc.constantFrom(':', '-', '.', '%', '3', 'A', '/', 'a');
    const part = fc.string({ unit: fc.oneof(unit, fc.constantFrom(':', '/')), maxLength: 3 });
    const value = fc.string({ unit, minLength: 1, maxLength: 3 });
    let accepted = 0;
    const property = fc.property(part, part, part, value, value, value, (before, between, after, x, y, z) => {
      let template: KeyTemplate;
      try {
        template = KeyTemplate.compile(`${before}<a>${between}<b>${after}`);
      } catch {
        return true;
      }
      accepted += 1;
      // The text between them moved from one value to the other: written one after the other they are the same.
      return renderBy(template, [x + between + y, z])[0] !== renderBy(template, [x, y + between + z])[0];
    });
    expect(() => fc.assert(property, { numRuns: 5_000 })).not.toThrow();
    expect(accepted).toBeGreaterThan(500);
  });

  it.each([undefined, null, '', NaN, Infinity, {}, [], ['a'], () => 1, Symbol('a'), '\ud800'])(
    'refuses %p as a value, naming the placeholder and not the value',
    (value) => {
      expect(() => render('goods:<sku>', value)).toThrow(LockKeyError);
      expect(() => render('goods:<sku>', value)).toThrow(
        /No key from "goods:<sku>": the value of <sku> at position 6 is/,
      );
    },
  );

  it('makes one key for each element of a list', () => {
    expect(render('<t>:<items[].sku>', 'a', ['x', 'y'])).toEqual(['a:x', 'a:y']);
    expect(() => render('<items[].sku>', [])).toThrow('is an empty list, not a list of values');
    expect(() => render('<items[].sku>', 'abc')).toThrow('is a string, not a list of values');
    expect(() => render('<items[].sku>', 'x')).toThrow(LockKeyError);
    expect(() => render('<items[].sku>', ['x', undefined])).toThrow(LockKeyError);
  });

  it('filters bring different spellings to one', () => {
    expect(render('<a|int>', '0042')).toEqual(['42']);
    expect(render('<a|int>', '+42')).toEqual(['42']);
    expect(render('<a|int>', -7)).toEqual(['-7']);
    expect(render('<a|int>', '-042')).toEqual(['-42']);
    expect(['0', '-0', '+000'].map((zero) => render('<a|int>', zero))).toEqual([['0'], ['0'], ['0']]);
    expect(render('<a|int>', '123456789012345678901234567890')).toEqual(['123456789012345678901234567890']);
    expect(render('<a|trim|lower>', '  ABC ')).toEqual(['abc']);
    expect(() => render('<a|int>', '4.2')).toThrow('not accepted by the filter int');
    expect(() => render('<a|trim>', '  ')).toThrow('is an empty string');
  });

  it.each(Object.keys(KEY_FILTERS))(
    'the filter %s takes no more than its length in steps, for a text of a million characters',
    (name) => {
      const count = 1_000_000;
      const texts = ['7', '0', ' ', 'İ'].flatMap((part) => [
        part.repeat(count),
        `${part.repeat(count)}x`,
        `-${part.repeat(count)}`,
      ]);
      const usedBefore = process.cpuUsage();
      for (const text of texts) KEY_FILTERS[name]?.(text);
      // An expression that goes back and forth needs a million times a million steps for one of them.
      const { user } = process.cpuUsage(usedBefore);
      expect(user / 1000 / texts.length).toBeLessThan(1000);
    },
  );

  it.each([
    ['goods:<id', 'has an unclosed "<" at position 6'],
    ['goods:<id:<x>', 'has an unclosed "<" at position 6'],
    ['goods:<>', 'has no name or path in <> at position 6'],
    ['goods:<a..b>', 'has no name or path in <a..b> at position 6'],
    ['goods:<a b>', 'has no name or path in <a b> at position 6'],
    [
      'goods:<a|upper>',
      'has an unknown filter "upper" in <a|upper> at position 6; there are: int, lower, trim',
    ],
    ['goods:<a|constructor>', 'has an unknown filter "constructor"'],
    ['<a[].b[].c>', 'has a list in a list'],
    ['<a[].b>:<c[].d>', 'has more than one list: use a key function'],
    ['', 'is empty'],
    ['<a><b>', 'has nothing between <a> and <b> at position 3 that a value cannot contain: write ":" there'],
    ['<a>:<b>-<c>', 'has nothing between <b> and <c> at position 8'],
    ['<a>%3A<b>', 'has nothing between <a> and <b>'],
  ])('%p is refused when it is compiled', (text, what) => {
    expect(() => KeyTemplate.compile(text)).toThrow(LockConfigurationError);
    expect(() => KeyTemplate.compile(text)).toThrow(`Key template "${text}" ${what}`);
  });

  it('a path follows properties and lists, and stops at what is not there', () => {
    const body = { items: [{ sku: 'x' }, { sku: 'y' }], a: { b: 1 } };
    expect(valueAtPath(body, ['a', 'b'])).toBe(1);
    expect(valueAtPath(body, ['a', 'x', 'y'])).toBeUndefined();
    expect(valueAtPath(body, ['items', '[]', 'sku'])).toEqual(['x', 'y']);
    expect(valueAtPath(null, ['a'])).toBeUndefined();
  });
});

describe('lockKey', () => {
  it('makes the same key as a template', () => {
    expect(lockKey`goods:${'a:b'}:${42}`).toBe(render('goods:<a>:<b>', 'a:b', 42)[0]);
  });

  it('refuses what a template refuses', () => {
    expect(() => lockKey`goods:${''}`).toThrow(LockKeyError);
    expect(() => lockKey`goods:${undefined as unknown as string}`).toThrow(
      'Value 1 after "goods:" is undefined',
    );
  });
});
