import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const LIBRARY = `${ROOT}/libs/distributed-lock/src`;
const page = readFileSync(`${ROOT}/docs/redisson.md`, 'utf8');

/** The file of a short name, as the page explains it: `contract/x`, `lock/x`, and all others in `test/`. */
function fileOf(short: string): string | undefined {
  const places = [`${LIBRARY}/testing/${short}.ts`, `${LIBRARY}/${short}.spec.ts`];
  const tests = ['e2e-spec', 'interop-spec'].map((kind) => `${ROOT}/test/${short}.${kind}.ts`);
  return [...places, ...tests].find((file) => existsSync(file));
}

const named = [...page.matchAll(/`([\w/.-]+)`: _([^_]+)_/g)].map(([, file = '', test = '']) => [
  file,
  test.replaceAll(/\s+/g, ' '),
]);

describe('the page about Redisson', () => {
  it.each(named)('names a test that exists: %s: %s', (short = '', test = '') => {
    const file = fileOf(short);
    expect(file).toBeDefined();
    expect(readFileSync(file as string, 'utf8')).toContain(`'${test}'`);
  });

  it('goes through all behaviours that Redisson’s tests check, in order, each with a test or a reason', () => {
    const rows = [...page.matchAll(/^\| (\d+) \| (.+) \| (.+) \|$/gm)];
    expect(rows.map(([, number]) => Number(number))).toEqual(Array.from({ length: 118 }, (_, i) => i + 1));
    const bare = rows.filter(([, , , here = '']) => !/: _|as \d|Not offered|store of its own/.test(here));
    expect(bare.map(([row]) => row)).toEqual([]);
  });
});
