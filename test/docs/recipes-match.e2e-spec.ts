import { readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folder = `${root}/test/docs/recipes`;

const page = readFileSync(`${root}/docs/recipes.md`, 'utf8');
const shown = [...page.matchAll(/^```ts\n([^]*?)^```$/gm)].map(([, code = '']) => code);
const files = readdirSync(folder).filter((file) => file.endsWith('.ts'));

/** What is written for the linter alone is not shown. */
const withoutMarks = (code: string): string => code.replaceAll(/^ *\/\/ oxlint-.*\n/gm, '');

describe('the page of recipes', () => {
  it('shows each file that the tests run, and no other', () => {
    const run = files.map((file) => withoutMarks(readFileSync(`${folder}/${file}`, 'utf8')));
    expect([...shown].sort()).toEqual(run.sort());
  });

  it('is tried as a whole: each file is imported by a test', () => {
    const tests = readdirSync(`${root}/test/docs`)
      .filter((file) => file.endsWith('spec.ts'))
      .map((file) => readFileSync(`${root}/test/docs/${file}`, 'utf8'))
      .join('\n');
    const untried = files.filter((file) => !tests.includes(`'./recipes/${file.replace('.ts', '.js')}'`));
    expect(untried).toEqual([]);
  });
});
