import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, posix } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { deadLinks, decisionFiles, mapLinks, SIDEBAR, withParts } from '../../site/index.mjs';
import { anchorOf, headingsOf, pagesBelow, readPage, withoutCode } from '../support/pages.js';

const listed = (locale: 'root' | 'zh'): string[] => Object.values(SIDEBAR[locale]).flatMap(Object.keys);
const isChinese = (page: string): boolean => page.startsWith('docs/zh/') || page === 'README.zh-CN.md';
const ROOT_PAGES = [
  'README.md',
  'README.zh-CN.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'TRACK-RECORD.md',
];
const pages = [...ROOT_PAGES, ...pagesBelow('docs').filter((page) => !decisionFiles().includes(page))];

const HOMES = ['site/home.md', 'site/home.zh.md'];

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

describe('the home page', () => {
  const readme = '# name\n\nEnglish\n\nclaim\n\nexample\n\noutput\n\n## Use\n\nuse\n\n## Rest\n\nrest\n';

  it('takes parts of the README', () => {
    const home =
      '<!-- README.md: the claim -->\n\nlink\n\n<!-- README.md: the example -->\n\n<!-- README.md: ## Use -->\n';
    expect(withParts(home, () => readme)).toBe('claim\n\nlink\n\nexample\n\noutput\n\n## Use\n\nuse\n');
  });

  it('does not name a part that the README has no more', () => {
    expect(() => withParts('<!-- README.md: ## Gone -->', () => readme)).toThrow('"## Gone"');
    for (const home of HOMES) expect(withParts(readPage(home), readPage)).not.toMatch(/^<!--/m);
  });
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

  it.each([...pages, ...decisionFiles(), ...HOMES])('lead to files and headings that exist: %s', (page) => {
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

describe('the check of the built site', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'site-'));
    mkdirSync(join(folder, 'sub'));
    writeFileSync(join(folder, 'target.html'), '<h2 id="there">There</h2>');
    writeFileSync(join(folder, 'target.md'), '## There\n');
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it.each([
    ['index.html', '<a href="/base/target">'],
    ['index.html', '<a href="./target#there">'],
    ['index.html', '<a href="https://example.com/target#missing">'],
    ['sub/page.html', '<a href="../target.html#there">'],
    ['index.md', '[there](target.md#there) `[code](missing.md)`'],
  ])('accepts in %s: %s', (file, text) => {
    writeFileSync(join(folder, file), text);
    expect(deadLinks(folder, new URL('https://site.test/base/'))).toEqual([]);
    rmSync(join(folder, file));
  });

  it.each([
    ['index.html', '<a href="./missing">', './missing'],
    ['index.html', '<a href="./target#missing">', './target#missing'],
    ['index.html', '<img src="/target">', '/target'],
    ['sub/page.html', '<a href="target">', 'target'],
    ['index.md', '[there](target.md#missing)', 'target.md#missing'],
  ])('refuses in %s: %s', (file, text, link) => {
    writeFileSync(join(folder, file), text);
    expect(deadLinks(folder, new URL('https://site.test/base/'))).toEqual([`${file}: ${link}`]);
    rmSync(join(folder, file));
  });
});
