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

describe('the page of guarantees', () => {
  const page = readFileSync(`${root}/docs/guarantees.md`, 'utf8');
  const claims = [...page.matchAll(/→ _([^_]+)_/g)].map(([, name]) => (name as string).replace(/\s+/g, ' '));
  const tests = sources('test') + sources('libs/distributed-lock/src');
  /** The titles of specs, and of the cases of the contract. */
  const titles = /\b(?:it|it\.each\([^]*?\))\(\s*'([^'\\]+)'|^  '([^'\\]+)': async \(/gm;
  const names = [...tests.matchAll(titles)].map(([, test, contractCase]) => test ?? contractCase);

  it('names a test for each promise', () => {
    expect(claims.length).toBeGreaterThan(10);
  });

  it.each(claims)('names a test that exists: %s', (name) => {
    expect(names).toContain(name);
  });
});
