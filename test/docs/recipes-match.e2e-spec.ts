import { readFileSync, readdirSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';

const root = fileURLToPath(new URL('../..', import.meta.url));

const index = readFileSync(`${root}/docs/recipes.md`, 'utf8');
const pages = readdirSync(`${root}/docs/recipes`).map(
  (page) => [page, readFileSync(`${root}/docs/recipes/${page}`, 'utf8')] as const,
);
const shown = pages.flatMap(([, text]) =>
  [...text.matchAll(/^```ts\n([^]*?)^```$/gm)].map(([, code = '']) => code),
);

/** Recipes of the second folder need packages that only the tests of that folder install. */
const FOLDERS = ['test/docs/recipes', 'test/stores/orms/recipes'];
const files = FOLDERS.flatMap((folder) =>
  readdirSync(`${root}/${folder}`)
    .filter((file) => file.endsWith('.ts'))
    .map((file) => `${folder}/${file}`),
);

/** The pages do not show comments for the linter. */
const withoutMarks = (code: string): string => code.replaceAll(/^ *\/\/ oxlint-.*\n/gm, '');

const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\w\s-]/g, '')
    .replaceAll(' ', '-');

describe('the pages of recipes', () => {
  it('show each file that the tests run, and no other', () => {
    const run = files.map((file) => withoutMarks(readFileSync(`${root}/${file}`, 'utf8')));
    expect([...shown].sort()).toEqual(run.sort());
  });

  it('are tried as a whole: each file is imported by a test', () => {
    const tests = ['test/docs', 'test/guard/support', 'test/stores/orms']
      .flatMap((folder) => readdirSync(`${root}/${folder}`).map((file) => `${root}/${folder}/${file}`))
      .filter((file) => file.endsWith('.ts'))
      .map((file) => readFileSync(file, 'utf8'))
      .join('\n');
    const untried = files.filter((file) => !tests.includes(`/recipes/${basename(file, '.ts')}.js'`));
    expect(untried).toEqual([]);
  });

  it('are found: the index leads to each of their headings', () => {
    const headings = pages.flatMap(([page, text]) => {
      const found = [...text.replaceAll(/^```[^]*?^```$/gm, '').matchAll(/^## (.+)$/gm)];
      return found.length === 0 ? [page] : found.map(([, heading = '']) => `${page}#${anchorOf(heading)}`);
    });
    expect(headings.filter((it) => !index.includes(`(recipes/${it})`))).toEqual([]);
  });
});
