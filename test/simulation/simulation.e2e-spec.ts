import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { BACKENDS } from './backends/backends.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FOUND = fileURLToPath(new URL('found', import.meta.url));
const STORES = Object.keys(BACKENDS);
const TIMEOUT_MS = 300_000;
/** About 4 CPU seconds of each store. By number and not by time, so that one commit runs the same histories on each machine. */
const HISTORIES: Readonly<Record<string, number>> = {
  documents: 100,
  redis: 20,
  quorum: 4,
  etcd: 20,
  zookeeper: 20,
};

/** A process of its own: Jest has globals and an event loop of its own in this one. */
function run(...args: readonly string[]) {
  return runWith(process.env, args);
}

function runWith(env: NodeJS.ProcessEnv, args: readonly string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: ROOT, encoding: 'utf8', env });
  return { status, output: stdout + stderr };
}

const MAIN = 'dist/simulation/test/simulation/main.js';
const simulate = (...args: readonly string[]) => run(MAIN, ...args);
const hashIn = (output: string) => /hash (\w+)/.exec(output)?.[1];

describe('the simulation', () => {
  beforeAll(() => {
    const { status, output } = run(
      'node_modules/@typescript/native/bin/tsc',
      '-p',
      'test/simulation/tsconfig.json',
    );
    if (status !== 0) throw new Error(output);
  }, TIMEOUT_MS);

  it.each(STORES)(
    'goes the same way twice: %s',
    (store) => {
      const [once, again, other] = ['3', '3', '4'].map((seed) =>
        hashIn(simulate('--store', store, '--seed', seed).output),
      );
      expect(once).toBe(again);
      expect(once).not.toBe(other);
    },
    TIMEOUT_MS,
  );

  it(
    'begins with the same seed of one commit each time, also where git is missing',
    () => {
      for (const env of [process.env, { ...process.env, PATH: '' }]) {
        const [once, again] = [1, 2].map(() => runWith(env, [MAIN, '--from', 'tree', '--count', '1']).output);
        const seedIn = (output = '') => /^1 histories of documents from seed (\d+) on/m.exec(output)?.[1];
        expect(Number(seedIn(once))).toBeGreaterThan(0);
        expect(seedIn(again)).toBe(seedIn(once));
      }
    },
    TIMEOUT_MS,
  );

  it(
    'refuses a command line and a plan with what may stand there, and without a stack',
    () => {
      const { status, output } = simulate('--sed', '7');
      expect({ status, output }).toEqual({
        status: 2,
        output: "Unknown option '--sed'. --help lists the options.\n",
      });
      expect(simulate('--store', 'mongo').output).not.toContain(' at ');
      expect(simulate('--help')).toMatchObject({
        status: 0,
        output: expect.stringContaining('--store NAME'),
      });
    },
    TIMEOUT_MS,
  );

  it(
    'finds nothing any more in the plans that have found a bug',
    () => {
      const plans = readdirSync(FOUND).filter((file) => file.endsWith('.json'));
      expect(plans.length).toBeGreaterThan(0);
      const { status, output } = simulate(...plans.flatMap((file) => ['--plan', `${FOUND}/${file}`]));
      expect({ status, output: status === 0 ? '' : output }).toEqual({ status: 0, output: '' });
    },
    TIMEOUT_MS,
  );

  it.each(STORES)(
    'breaks no promise in the histories of the seeds that follow from the commit: %s',
    (store) => {
      const count = String(HISTORIES[store]);
      const { status, output } = simulate('--store', store, '--from', 'tree', '--count', count);
      expect({ status, output: status === 0 ? '' : output }).toEqual({ status: 0, output: '' });
      expect(output).toContain(`${count} histories of ${store}`);
    },
    TIMEOUT_MS,
  );
});
