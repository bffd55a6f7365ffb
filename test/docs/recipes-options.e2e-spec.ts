import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';

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
  'Options of the module': ['LockModuleOptions', 'LockServiceOptions', 'LockRegistration'],
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
