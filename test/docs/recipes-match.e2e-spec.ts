import { readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { pagesBelow, readPage } from '../support/pages.js';

const root = fileURLToPath(new URL('../..', import.meta.url));

const pages = pagesBelow('docs/recipes');
/** `observed.ts` is on the page that a production reads. */
const shown = [...pages, 'docs/production.md'].flatMap((page) =>
  [...readPage(page).matchAll(/^```ts\n([^]*?)^```$/gm)].map(([, code = '']) => code),
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

describe('the pages of recipes', () => {
  it('show each file that the tests run, whole or in parts, and nothing else', () => {
    const run = files.map((file) => withoutMarks(readFileSync(`${root}/${file}`, 'utf8')));
    expect(shown.filter((block) => !run.some((file) => file.includes(block)))).toEqual([]);
    const missing = files.filter((_, i) => !shown.some((block) => run[i]!.includes(block)));
    expect(missing).toEqual([]);
  });

  it('are tried as a whole: each file is imported by a test', () => {
    const tests = ['test/docs', 'test/fencing/support', 'test/stores/orms']
      .flatMap((folder) => readdirSync(`${root}/${folder}`).map((file) => `${root}/${folder}/${file}`))
      .filter((file) => file.endsWith('.ts'))
      .map((file) => readFileSync(file, 'utf8'))
      .join('\n');
    const untried = files.filter((file) => !tests.includes(`/recipes/${basename(file, '.ts')}.js'`));
    expect(untried).toEqual([]);
  });
});

const read = (page: string): string =>
  readFileSync(fileURLToPath(new URL(`../../docs/${page}`, import.meta.url)), 'utf8');
const reference = read('api.md') + read('api-stores.md');
const setup = read('recipes/setup.md');

const pairs = (text: string, pattern: RegExp): [string, string][] =>
  [...text.matchAll(pattern)].map(([, name = '', value = '']) => [name, value]);

/** The members of an interface with their comments, as the generated reference shows them. */
function membersOf(name: string): [string, string][] {
  const from = reference.indexOf(`### ${name}\n`);
  const entry = reference.slice(from, reference.indexOf('\n#', from));
  return pairs(entry, /^- `(\w+)\??: .+\\\n((?: .+\n)+)/gm);
}

function rowsOf(heading: string): Map<string, string> {
  const from = setup.indexOf(`## ${heading}\n`);
  return new Map(pairs(setup.slice(from, setup.indexOf('\n#', from + 1)), /^\| `(\w+)` +\| (.+?) +\|/gm));
}

const TABLES = {
  'Options of the module': ['DistributedLockModuleOptions', 'LockServiceOptions', 'LockRegistration'],
  'Options of redisStore': ['RedisStoreOptions'],
};

describe.each(Object.entries(TABLES))('%s', (heading, interfaces) => {
  const rows = rowsOf(heading);
  const members = interfaces.flatMap(membersOf);

  it('are all in the table, and no others', () => {
    expect([...rows.keys()].sort()).toEqual([...new Set(members.map(([name]) => name))].sort());
  });

  it('have the defaults that the code says', () => {
    const said = members.flatMap(([name, comment]): [string, string][] => {
      const [, value] = /\bdefault:? (`\w+`|\d[\d ]*\d|\d|nothing)/i.exec(comment) ?? [];
      return value === undefined ? [] : [[name, value]];
    });
    expect(said.length).toBeGreaterThan(4);
    for (const [name, value] of said) expect(`${name}: ${rows.get(name)}`).toContain(value);
  });
});
