import { existsSync } from 'node:fs';
import { posix } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { decisionFiles, mapLinks, SIDEBAR, withParts } from '../../tools/site/index.mjs';
import { anchorOf, headingsOf, pagesBelow, readPage, withoutCode } from '../support/pages.js';

const listed = (locale: 'root' | 'zh'): string[] => Object.values(SIDEBAR[locale]).flatMap(Object.keys);
const isChinese = (page: string): boolean => page.startsWith('docs/zh/');
const ROOT_PAGES = [
  'README.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  '.github/SECURITY.md',
  'verification/TRACK-RECORD.md',
];
const pages = [...ROOT_PAGES, ...pagesBelow('docs').filter((page) => !decisionFiles().includes(page))];

const HOMES = ['tools/site/home.md', 'tools/site/home.zh.md'];

describe('the sidebar of the site', () => {
  it('has each English page once', () => {
    expect(listed('root').sort()).toEqual(pages.filter((page) => !isChinese(page)).sort());
  });

  it('has each Chinese page once', () => {
    expect(listed('zh').sort()).toEqual(pages.filter(isChinese).sort());
  });

  it('has the decisions', () => {
    expect(decisionFiles()).toContain('docs/decisions/0001-hold-counts-in-the-process.md');
  });
});

it('the home page does not name a part that the README has no more', () => {
  expect(() => withParts('<!-- README.md: ## Gone -->', () => '# name\n')).toThrow('"## Gone"');
  for (const home of HOMES) expect(withParts(readPage(home), readPage)).not.toMatch(/^<!--/m);
});

describe('the links of a page', () => {
  const linksOf = (page: string): string[] => {
    const links: string[] = [];
    mapLinks(readPage(page), (link) => {
      links.push(link);
      return link;
    });
    return links.filter((link) => !/^[a-z]+:/.test(link));
  };

  const linking = [...pages, ...decisionFiles(), ...HOMES, 'libs/distributed-lock/README.md'];

  it.each(linking)('lead to files and headings that exist: %s', (page) => {
    const dead = linksOf(page).filter((link) => {
      const [path = '', anchor] = link.split('#');
      const target = path === '' ? page : posix.join(posix.dirname(page), path);
      if (!existsSync(target)) return true;
      return anchor !== undefined && !headingsOf(readPage(target)).map(anchorOf).includes(anchor);
    });
    expect(dead).toEqual([]);
  });

  it('are told from code that looks like one', () => {
    const text = "[a](a.md) `[b](b.md)`\n\n```md\n[c](c.md)\n```\n\n[`d`](d.md#e) [f]\n\n[f]: f.md 't'\n";
    expect(mapLinks(text, (link) => `x/${link}`)).toBe(
      "[a](x/a.md) `[b](b.md)`\n\n```md\n[c](c.md)\n```\n\n[`d`](x/d.md#e) [f]\n\n[f]: x/f.md 't'\n",
    );
  });
});

describe('the tables of a page', () => {
  // A blank line in a table makes text of the rows behind it.
  it.each(pages)('begin with a head: %s', (page) => {
    const lines = withoutCode(readPage(page)).split('\n');
    const isHeadless = (line: string, i: number): boolean =>
      line.startsWith('|') && !lines[i - 1]?.startsWith('|') && !/^\|[ :|-]+\|$/.test(lines[i + 1] ?? '');
    expect(lines.filter(isHeadless)).toEqual([]);
  });
});
