import { posix } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { anchorOf, headingsOf, pagesBelow, readPage, withoutCode } from '../support/pages.js';

const chinese = pagesBelow('docs/zh');
const originalOf = (page: string): string =>
  page.replace('docs/zh/README.md', 'README.md').replace(/^docs\/zh\//, 'docs/');
const translationOf = (page: string): string | undefined =>
  chinese.find((candidate) => originalOf(candidate) === page);

/** English pages that have a Chinese one, always. */
const REQUIRED = ['README.md', 'docs/first-lock.md', 'docs/recipes.md', ...pagesBelow('docs/recipes')];

const all = (text: string, pattern: RegExp): string[] => [...text.matchAll(pattern)].map(([it]) => it);
const SWITCH = /^(English · \[中文\]|\[English\]).*$/m;
const linksOf = (page: string): string[] =>
  all(readPage(page).replace(SWITCH, ''), /(?<=\]\()[^)\s]+(?=\))/g);

/** The page and the heading that a link leads to. */
function destination(page: string, link: string): readonly [target: string, anchor: string | undefined] {
  const [file = '', anchor] = link.split('#');
  return [file === '' ? page : posix.join(posix.dirname(page), file), anchor];
}

/** The same in both languages: the English page, and the number of the heading. */
function leadsTo(page: string, link: string): string {
  if (/^https?:/.test(link)) return link;
  const [target, anchor] = destination(page, link);
  const number = anchor === undefined ? '' : headingsOf(readPage(target)).map(anchorOf).indexOf(anchor);
  return `${originalOf(target)} ${number}`;
}

/** The parts that must be the same in both languages, so that a translation that lags is found. */
const PARTS: Readonly<Record<string, (text: string, page: string) => unknown>> = {
  'the levels of its headings': (text) => all(withoutCode(text), /^#+ /gm),
  'its blocks of code and commands': (text) => all(text, /^```[^]*?^```$/gm),
  'the rows of its tables and the points of its lists': (text) => all(withoutCode(text), /^(\||- |\d+\. )/gm),
  'where its links lead': (_, page) =>
    linksOf(page)
      .map((link) => leadsTo(page, link))
      .sort(),
  'its figures': (text) => all(withoutCode(text), /\b\d+\b/g).sort(),
};

describe('the Chinese page of', () => {
  it.each(REQUIRED)('%s exists', (page) => {
    expect(chinese.map(originalOf)).toContain(page);
  });

  describe.each(chinese)('%s', (page) => {
    const original = originalOf(page);

    it.each(Object.keys(PARTS))('has the same as the English one: %s', (name) => {
      const part = PARTS[name]!;
      expect(part(readPage(page), page)).toEqual(part(readPage(original), original));
    });

    it('is linked from the English one, and links to it, in the line below the title', () => {
      const line = (text: string) => text.split('\n')[2]?.split(' · ').slice(0, 2);
      const way = (from: string, to: string) => posix.relative(posix.dirname(from), to);
      expect(line(readPage(page))).toEqual([`[English](${way(page, original)})`, '中文']);
      expect(line(readPage(original))).toEqual(['English', `[中文](${way(original, page)})`]);
    });

    it('links to Chinese pages where they exist', () => {
      const targets = linksOf(page)
        .filter((link) => !/^https?:/.test(link))
        .map((link) => destination(page, link)[0]);
      expect(targets.filter((target) => translationOf(target) !== undefined)).toEqual([]);
    });
  });
});
