import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { escapeUnprintable } from './redaction.js';

describe('a text from outside', () => {
  it.each([
    ['ends a line', 'a\nb\u2028c', 'a\\nb\\u2028c'],
    ['is an order to a terminal', '\u001b[31m\u0000\u0085', '\\u001b[31m\\u0000\\u0085'],
    ['turns the direction of writing', '\u061c\u200e\u202e\u2066', '\\u061c\\u200e\\u202e\\u2066'],
    ['has no width', 'goods\u200b:\ufeff42\u00ad\u2060\u180e', 'goods\\u200b:\\ufeff42\\u00ad\\u2060\\u180e'],
    ['is a letter that nobody sees', 'a\u3164\u115f\u034f', 'a\\u3164\\u115f\\u034f'],
    ['is a tag beyond 16 bits', 'a\u{e0041}\u{1d173}', 'a\\u{e0041}\\u{1d173}'],
    ['is half a character', 'a\ud800b', 'a\\ud800b'],
  ])('is shown with an escape for what %s', (_, text, shown) => {
    expect(escapeUnprintable(text)).toBe(shown);
  });

  it('stays as it is in every script that is read', () => {
    for (const text of ['goods:42 ünï', '商品:42 修理', 'عربى', 'עברית', 'हिन्दी', '💥🇨🇳', '\\u061c'])
      expect(escapeUnprintable(text)).toBe(text);
  });

  it('is shown by the page for operators with the same escapes', () => {
    const listIn = (file: string) =>
      /^const UNPRINTABLE = .*$/m.exec(readFileSync(new URL(file, import.meta.url), 'utf8'))?.[0];
    expect(listIn('../admin/page/dom.js')).toBe(listIn('./redaction.ts'));
  });
});
