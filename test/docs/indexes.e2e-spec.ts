import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';

const docs = fileURLToPath(new URL('../../docs', import.meta.url));
const pagesIn = (folder: string) => readdirSync(folder).filter((file) => /^(?!README).*\.md$/.test(file));
const linksIn = (file: string) =>
  [...readFileSync(file, 'utf8').matchAll(/\]\(([^)#:]+)\)/g)].map(([, link]) => link as string);

describe('the index of', () => {
  it('the documentation leads to every page, and to nothing that is not there', () => {
    const links = linksIn(`${docs}/README.md`);
    expect(links).toEqual(expect.arrayContaining(pagesIn(docs)));
    expect(links.filter((link) => !existsSync(`${docs}/${link}`))).toEqual([]);
  });

  it('the decisions names each by its title', () => {
    const index = readFileSync(`${docs}/decisions/README.md`, 'utf8');
    const decisions = pagesIn(`${docs}/decisions`);
    expect(decisions.length).toBeGreaterThan(10);
    for (const file of decisions) {
      const [, number, title] =
        /^# (\d{4}): (.+)\n/.exec(readFileSync(`${docs}/decisions/${file}`, 'utf8')) ?? [];
      expect(index.split('\n')).toContain(`- [${number}](${file}): ${title}`);
    }
  });
});
