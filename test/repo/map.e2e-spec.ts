import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { TOGETHER } from '../lanes.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const LIBRARY = 'libs/distributed-lock/src';
const PAGE = readFileSync(join(ROOT, 'test/README.md'), 'utf8');

/** Of a table: the names in backquotes of its first column, and of its second. */
function rowsOf(heading: string): (readonly [string[], string[]])[] {
  const [, rest = ''] = PAGE.split(heading);
  const [table = ''] = rest.split(/\n## /);
  const rows = [...table.matchAll(/^\| (`.*?) +\| (.*) +\|$/gm)];
  const names = (cell = '') => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);
  return rows.map(([, first, second]) => [names(first), names(second)]);
}

/** Every folder of the library that holds sources. */
function rooms(): string[] {
  const files = readdirSync(join(ROOT, LIBRARY), { recursive: true, encoding: 'utf8' });
  const sources = files.filter((file) => /\.(ts|lua)$/.test(file));
  const folders = sources.map((file) => dirname(file.replaceAll('\\', '/')));
  return [...new Set(folders)].filter((folder) => folder !== '.');
}

describe('the page on tests', () => {
  const rows = rowsOf('## Where a source folder is tested');
  const sources = rows.flatMap(([names]) => names);

  it('says of each room of the library where it is tested', () => {
    // A room of a store may have rooms of its own, whose row may be that of the room.
    const needed = rooms().map((room) => room.split('/').slice(0, room.startsWith('stores/redis/') ? 3 : 2));
    const missing = needed
      .map((path) => `${LIBRARY}/${path.join('/')}`)
      .filter((it) => !sources.includes(it));
    expect([...new Set(missing)]).toEqual([]);
  });

  it('says of each workspace and folder with programs where it is tested', () => {
    const folders = ['apps', 'libs'].flatMap((top) =>
      readdirSync(join(ROOT, top)).map((name) => `${top}/${name}/src`),
    );
    expect(sources).toEqual(
      expect.arrayContaining([
        ...folders,
        'verification/bench',
        'verification/chaos',
        'verification/interop',
        'tools',
      ]),
    );
  });

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

  it('tells for each file of 100 lines or more what to run: a spec beside it, or the row of its own folder', () => {
    const files = ['libs', 'apps'].flatMap((top) =>
      readdirSync(join(ROOT, top), { recursive: true, encoding: 'utf8' }).map(
        (file) => `${top}/${file.replaceAll('\\', '/')}`,
      ),
    );
    const long = files.filter(
      (file) =>
        /(?<!\.(spec|d|generated))\.(ts|lua)$/.test(file) &&
        !/\/(dist|node_modules)\//.test(file) &&
        readFileSync(join(ROOT, file), 'utf8').split('\n').length > 100,
    );
    expect(long.length).toBeGreaterThan(50);
    const hasSpec = (file: string) => files.includes(file.replace(/\.ts$/, '.spec.ts'));
    expect(long.filter((file) => !hasSpec(file) && !sources.includes(dirname(file)))).toEqual([]);
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
