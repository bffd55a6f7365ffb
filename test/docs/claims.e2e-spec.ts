import { describe, expect, it } from '@jest/globals';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

function sources(folder: string): string {
  return readdirSync(`${root}/${folder}`, { recursive: true, encoding: 'utf8' })
    .filter((file) => /spec\.ts$|contract/.test(file) && file.endsWith('.ts'))
    .map((file) => readFileSync(`${root}/${folder}/${file}`, 'utf8'))
    .join('\n');
}

/** The names that the simulation gives to broken promises. */
function simulationRules(): readonly string[] {
  const folders = ['checker', 'history'].map((folder) => `${root}/test/simulation/${folder}`);
  const files = folders.flatMap((folder) => readdirSync(folder).map((file) => `${folder}/${file}`));
  const code = files.filter((file) => !file.endsWith('spec.ts')).map((file) => readFileSync(file, 'utf8'));
  const given = code.join('\n').matchAll(/\brule: '([^']+)'|\.violate\(\s*'([^']+)'/g);
  return [...new Set([...given].map(([, rule, violated]) => (rule ?? violated) as string))];
}

describe('the page of guarantees', () => {
  const page = readFileSync(`${root}/docs/guarantees.md`, 'utf8');
  const claims = [...page.matchAll(/→ _([^_]+)_/g)].map(([, name]) => (name as string).replace(/\s+/g, ' '));
  const tests = sources('test') + sources('libs/distributed-lock/src');
  /** The titles of specs, and of the cases of the contract. */
  const titles = /\b(?:it|it\.each(?:<[^]*?>)?\([^]*?\))\(\s*'([^'\\]+)'|^ {2,4}'([^'\\]+)': async \(/gm;
  const names = [...tests.matchAll(titles)].map(([, test, contractCase]) => test ?? contractCase);

  it.each(claims)('names a test that exists: %s', (name) => {
    expect(names).toContain(name);
  });

  it('names only rules that the simulation checks', () => {
    const named = [...page.matchAll(/^ *→ simulation: (.+)$/gm)].map(([, rule]) => rule as string);
    expect(named.length).toBeGreaterThan(10);
    expect(named.filter((rule) => !simulationRules().includes(rule))).toEqual([]);
  });
});
