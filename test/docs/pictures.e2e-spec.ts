import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { RENEWALS_PER_LEASE } from '../../libs/distributed-lock/src/lock/core/lease.js';
import { RECHECK_MS } from '../../libs/distributed-lock/src/port/timing.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const textOf = (file: string) => readFileSync(`${ROOT}/${file}`, 'utf8');

/** What the script exports, by a program of its own: Jest does not load it. */
function run<T>(file: string, expression: string): T {
  const program = `import('./tools/${file}').then((it) => process.stdout.write(JSON.stringify(${expression})))`;
  const { stdout, stderr } = spawnSync(process.execPath, ['-e', program], { cwd: ROOT, encoding: 'utf8' });
  expect(stderr).toBe('');
  return JSON.parse(stdout) as T;
}

describe('the pictures', () => {
  it('are drawn from the code and from the benchmark as they are now; if not: npm run generate', () => {
    const drawn = run<Record<string, string>>('draw-pictures.mjs', 'it.pictures()');
    expect(
      Object.fromEntries(Object.keys(drawn).map((file) => [file, textOf(`docs/images/${file}`)])),
    ).toEqual(drawn);
  });

  it('have the figures of the code', () => {
    const figures = run<Record<string, number>>('pictures/figures.mjs', 'it.figuresInCode()');
    expect(figures).toMatchObject({ recheckMs: RECHECK_MS, renewalsPerLease: RENEWALS_PER_LEASE });
  });
});
