import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';

const read = (page: string): string =>
  readFileSync(fileURLToPath(new URL(`../../${page}`, import.meta.url)), 'utf8');
const english = read('README.md');
const chinese = read('README.zh-CN.md');

const all = (page: string, pattern: RegExp): string[] => [...page.matchAll(pattern)].map(([it]) => it);
const withoutCode = (page: string): string => page.replaceAll(/^```[^]*?^```$/gm, '');

/** The parts that must be the same in both languages. */
const PARTS: Readonly<Record<string, (page: string) => unknown>> = {
  'the levels of its headings': (page) => all(withoutCode(page), /^#+ /gm),
  'its blocks of code and commands': (page) => all(page, /^```[^]*?^```$/gm),
  'the rows of its tables and the points of its lists': (page) => all(withoutCode(page), /^(\||- )/gm),
  'what it links to': (page) =>
    all(page, /\]\([^)#]+[^)]*\)/g)
      .filter((link) => !link.includes('README'))
      .sort(),
  'the names it has in code': (page) => [...new Set(all(withoutCode(page), /`[^`]+`/g))].sort(),
  'its figures': (page) => all(withoutCode(page), /\b\d+\b/g).sort(),
};

describe('the Chinese README', () => {
  it.each(Object.keys(PARTS))('has the same as the English one: %s', (name) => {
    const part = PARTS[name]!;
    expect(part(chinese)).toEqual(part(english));
    expect(part(english)).not.toEqual([]);
  });

  it('links to its own headings only where they exist', () => {
    const anchors = all(chinese, /\]\(#[^)]+\)/g).map((link) => link.slice(3, -1));
    const headings = all(withoutCode(chinese), /^#+ .+$/gm).map((it) => it.replace(/^#+ /, ''));
    expect(anchors.length).toBeGreaterThan(0);
    expect(headings).toEqual(expect.arrayContaining(anchors));
  });
});
