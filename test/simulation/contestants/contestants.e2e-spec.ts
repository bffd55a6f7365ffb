import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { arePeersInstalled } from './peers.js';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const FOUND = fileURLToPath(new URL('found', import.meta.url));
const TIMEOUT_MS = 300_000;
const PAGE = readFileSync(`${ROOT}docs/simulation.md`, 'utf8');

/** Prints what the command prints, and its status. */
function run(
  ...args: readonly string[]
): Promise<{ readonly status: number | null; readonly output: string }> {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, args, { cwd: ROOT, maxBuffer: Infinity }, (_, stdout, stderr) =>
      resolve({ status: child.exitCode, output: stdout + stderr }),
    );
  });
}

const contest = (...args: readonly string[]) =>
  run('dist/simulation/test/simulation/main.js', '--contestant', ...args);

describe('a library in the place of ours', () => {
  const plans = readdirSync(FOUND).map((file) => ({ file, ...partsOf(file) }));
  /** `redlock-3-errors.json`: the rule stands last. */
  function partsOf(file: string): { readonly contestant: string; readonly rule: string } {
    const [, contestant = '', rule = ''] = /^(\w+(?:-3)?)-(.+)\.json$/.exec(file) ?? [];
    return { contestant, rule: rule.replaceAll('-', ' ') };
  }

  beforeAll(async () => {
    const { status, output } = await run(
      'node_modules/@typescript/native/bin/tsc',
      '-p',
      'test/simulation/tsconfig.json',
    );
    if (status !== 0) throw new Error(output);
  }, TIMEOUT_MS);

  // Seeds that would convict ours, too, if it believed in its lock for ever.
  it.each([
    ['ours', '13', '3'],
    ['ours-3', '10', '2'],
  ])(
    'breaks nothing where it is ours: %s',
    async (name, from, count) => {
      const { status, output } = await contest(name, '--from', from, '--count', count);
      expect({ status, output }).toMatchObject({
        status: 0,
        output: expect.stringContaining('nothing broken'),
      });
      // Histories in which nobody is let in prove nothing.
      expect(Number(/(\d+) calls let in/.exec(output)?.[1])).toBeGreaterThan(5 * Number(count));
    },
    TIMEOUT_MS,
  );

  it(
    'is convicted where it is a key that expires and nothing else',
    async () => {
      const { status, output } = await contest('naive', '--seed', '3');
      expect(status).toBe(1);
      expect(output).toMatch(/BROKEN exclusion: call \S+ of P\d and call \S+ of P\d both believe in/);
    },
    TIMEOUT_MS,
  );

  it('stands on the page with each plan that convicts it, and with the version that is installed', () => {
    const { dependencies } = JSON.parse(readFileSync(`${ROOT}verification/bench/peers/package.json`, 'utf8'));
    const shown = [...PAGE.matchAll(/contestants\/found\/([\w-]+\.json)/g)].map(([, file]) => file);
    expect(plans).not.toEqual([]);
    expect(new Set(shown)).toEqual(new Set(plans.map(({ file }) => file)));
    for (const name of [
      'redlock',
      '@sesamecare-oss/redlock',
      'redis-semaphore',
      'redlock-universal',
      '@verrou/core',
    ])
      expect(PAGE).toContain(`${name} ${dependencies[name]}`);
  });

  (arePeersInstalled() ? describe : describe.skip)('by the plans on the page', () => {
    it.each(plans)(
      'still breaks the rule: $file',
      async ({ file, contestant, rule }) => {
        const { output } = await contest(contestant, '--plan', `${FOUND}/${file}`);
        expect(output).toContain(`BROKEN ${rule}: `);
        const ours = await contest(
          contestant.endsWith('-3') ? 'ours-3' : 'ours',
          '--plan',
          `${FOUND}/${file}`,
        );
        expect(ours.output).toContain('0 broken promises');
      },
      TIMEOUT_MS,
    );
  });
});
