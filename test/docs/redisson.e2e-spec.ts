import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const LIBRARY = `${ROOT}/libs/distributed-lock/src`;
const page = readFileSync(`${ROOT}/docs/redisson.md`, 'utf8');

/** The file of a short name: `contract/x` in the suite of stores, `lock/x` beside the source, all others in `test/`. */
function fileOf(short: string): string | undefined {
  const places = [`${LIBRARY}/testing/${short}.ts`, `${LIBRARY}/${short}.spec.ts`];
  const tests = ['e2e-spec', 'interop-spec'].map((kind) => `${ROOT}/test/${short}.${kind}.ts`);
  return [...places, ...tests].find((file) => existsSync(file));
}

interface Behaviour {
  readonly number: number;
  readonly redisson: string;
  readonly here: string;
}
const behaviours = JSON.parse(
  readFileSync(`${ROOT}/verification/interop/redisson-tests.json`, 'utf8'),
) as readonly Behaviour[];

const testsIn = (text: string) =>
  [...text.matchAll(/`([\w/.-]+)`: _([^_]+)_/g)].map(([, file = '', test = '']) => [
    file,
    test.replaceAll(/\s+/g, ' '),
  ]);
const named = [...testsIn(page), ...behaviours.flatMap(({ here }) => testsIn(here))];

describe('the page about Redisson', () => {
  it.each(named)('names a test that exists: %s: %s', (short = '', test = '') => {
    const file = fileOf(short);
    expect(file).toBeDefined();
    expect(readFileSync(file as string, 'utf8')).toContain(`'${test}'`);
  });

  it('counts all behaviours that Redisson’s tests check, in order, each with a test or a reason', () => {
    const numbers = behaviours.map(({ number }) => number);
    expect(numbers).toEqual(Array.from({ length: numbers.length }, (_, i) => i + 1));
    expect(page).toContain(`all ${numbers.length} behaviours`);
    const bare = behaviours.filter(({ here }) => !/: _|as \d|Not offered|store of its own/.test(here));
    expect(bare).toEqual([]);
  });
});
