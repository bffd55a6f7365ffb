import { readFileSync, readdirSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';

const root = fileURLToPath(new URL('../..', import.meta.url));

const page = readFileSync(`${root}/docs/recipes.md`, 'utf8');
const shown = [...page.matchAll(/^```ts\n([^]*?)^```$/gm)].map(([, code = '']) => code);

/** Recipes of the second folder need packages that only the tests of that folder install. */
const FOLDERS = ['test/docs/recipes', 'test/stores/orms/recipes'];
const files = FOLDERS.flatMap((folder) =>
  readdirSync(`${root}/${folder}`)
    .filter((file) => file.endsWith('.ts'))
    .map((file) => `${folder}/${file}`),
);

/** The page does not show comments for the linter. */
const withoutMarks = (code: string): string => code.replaceAll(/^ *\/\/ oxlint-.*\n/gm, '');

describe('the page of recipes', () => {
  it('shows each file that the tests run, and no other', () => {
    const run = files.map((file) => withoutMarks(readFileSync(`${root}/${file}`, 'utf8')));
    expect([...shown].sort()).toEqual(run.sort());
  });

  it('is tried as a whole: each file is imported by a test', () => {
    const tests = ['test/docs', 'test/guard/support', 'test/stores/orms']
      .flatMap((folder) => readdirSync(`${root}/${folder}`).map((file) => `${root}/${folder}/${file}`))
      .filter((file) => file.endsWith('.ts'))
      .map((file) => readFileSync(file, 'utf8'))
      .join('\n');
    const untried = files.filter((file) => !tests.includes(`/recipes/${basename(file, '.ts')}.js'`));
    expect(untried).toEqual([]);
  });
});
