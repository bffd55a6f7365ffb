import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { STORES, importPathOf } from '../../../libs/distributed-lock/src/stores.js';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const rowsOf = (page: string) =>
  readFileSync(`${ROOT}/${page}`, 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .map((line) => line.split('|').map((cell) => cell.trim()));

describe('the list of stores', () => {
  it('is what the manifest, the prompt of nest add and the README say; if not: npm run generate', () => {
    const { stdout, stderr } = spawnSync(process.execPath, ['tools/stores.mjs', '--check'], {
      cwd: ROOT,
      encoding: 'utf8',
    });
    expect(stdout + stderr).toBe('');
  });

  it.each(STORES.map((store) => [store.name, store] as const))(
    'has %s, which docs/stores.md compares with the others, and says the same maturity',
    (_, store) => {
      const row = rowsOf('docs/stores.md').find((cells) => cells.includes(`\`${importPathOf(store)}\``));
      expect(row).toContain(store.maturity);
    },
  );

  it('has each folder of a store', () => {
    const src = `${ROOT}/libs/distributed-lock/src`;
    const listed = STORES.map(({ module }) =>
      module === 'index' ? 'memory' : module.replace(/\/index$/, ''),
    );
    // `document` and `sql` have what several stores share.
    const folders = readdirSync(src).filter(
      (it) => it !== 'document' && it !== 'sql' && existsSync(`${src}/${it}/store.ts`),
    );
    expect(listed.toSorted()).toEqual(folders.toSorted());
  });
});
