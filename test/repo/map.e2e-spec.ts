import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { ON_EACH_NODE, SLOW_LANE, TOGETHER } from '../lanes.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PAGE = readFileSync(join(ROOT, 'test/README.md'), 'utf8');

/** Of a table: the names in backquotes of its first column, and of its second. */
function rowsOf(heading: string): (readonly [string[], string[]])[] {
  const [, rest = ''] = PAGE.split(heading);
  const [table = ''] = rest.split(/\n## /);
  const rows = [...table.matchAll(/^\| (`.*?) +\| (.*) +\|$/gm)];
  const names = (cell = '') => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);
  return rows.map(([, first, second]) => [names(first), names(second)]);
}

describe('the page on tests', () => {
  const rows = rowsOf('## Where a source folder is tested');
  const sources = rows.flatMap(([names]) => names);

  it('names only places that exist, and lists each folder of tests', () => {
    const places = [...sources, ...rows.flatMap(([, tests]) => tests)];
    const folders = rowsOf('# Tests').flatMap(([names]) => names);
    const helpers = rowsOf('## What suites share').flatMap(([names]) => names);
    const all = [
      ...places,
      ...folders.map((it) => `test/${it}`),
      ...helpers.map((it) => `test/support/${it}`),
    ];
    expect(all.filter((place) => !existsSync(join(ROOT, place)))).toEqual([]);
    const here = readdirSync(join(ROOT, 'test'), { withFileTypes: true }).filter((entry) =>
      entry.isDirectory(),
    );
    const listed = new Set(folders.map((it) => it.split('/')[0]));
    expect(here.map(({ name }) => name).filter((name) => !listed.has(name))).toEqual([]);
  });

  it('names the nine set-ups that run the whole contract, once each', () => {
    const specs = readdirSync(join(ROOT, 'test'), { recursive: true, encoding: 'utf8' });
    const runs = specs.flatMap((file) => {
      if (!file.endsWith('-spec.ts') || file.includes('node_modules') || file.startsWith('repo')) return [];
      const text = readFileSync(join(ROOT, 'test', file), 'utf8').replaceAll(/^import [^;]*;$/gm, '');
      return [...text.matchAll(/\bdescribeLockStoreContract\b/g)].map(() => file.replaceAll('\\', '/'));
    });
    expect(runs.sort()).toEqual([
      'core/memory-conformance.e2e-spec.ts',
      'docs/own-store.e2e-spec.ts',
      'quorum/conformance.e2e-spec.ts',
      'redis/conformance/redis.e2e-spec.ts',
      'simulation/redis/store.e2e-spec.ts',
      'stores/etcd/contract.stores-spec.ts',
      'stores/mysql/contract.stores-spec.ts',
      'stores/postgres/contract.stores-spec.ts',
      'stores/zookeeper/contract.stores-spec.ts',
    ]);
  });
});

describe('the suites that run together', () => {
  // A lane leaves their parts out: without a suite that runs them, nothing would.
  it.each(Object.entries(TOGETHER))('as %s are run by a suite of that name', (name, parts) => {
    const suites = ['e2e', 'stores'].map((kind) => join(ROOT, `test/together/${name}.${kind}-spec.ts`));
    const suite = suites.find((path) => existsSync(path));
    expect(suite && readFileSync(suite, 'utf8')).toContain(`runSuites('${name}')`);
    const files = readdirSync(join(ROOT, 'test'), { recursive: true, encoding: 'utf8' });
    const missing = parts.filter(
      (part) => !files.some((file) => file.replaceAll('\\', '/').startsWith(part)),
    );
    expect(missing).toEqual([]);
  });
});

describe('a list of suites', () => {
  const specsIn = (folder: string) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('spec.ts'))
      .map((file) => `${folder}/${file.replaceAll('\\', '/')}`);
  const specs = [...specsIn('test'), ...specsIn('libs/distributed-lock/src')];

  // Jest says nothing of a path without a suite, if another path has one.
  it.each([
    ['the slow lane', SLOW_LANE.map((part) => `test/${part}`)],
    ['the runs on each version of Node', ON_EACH_NODE],
  ])('for %s names only suites that exist', (_, parts) => {
    expect(parts.filter((part) => !specs.some((spec) => spec.startsWith(part)))).toEqual([]);
  });
});
