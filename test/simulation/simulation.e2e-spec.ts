import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { BACKENDS } from './backends/backends.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FOUND = fileURLToPath(new URL('found', import.meta.url));
const ALARMS = fileURLToPath(new URL('alarms', import.meta.url));
const STORES = Object.keys(BACKENDS);
const TIMEOUT_MS = 300_000;
const IS_CI = process.env['CI'] === 'true';
/**
 * About 4 CPU seconds of each store. The same seeds each time, so that a run is red for the change and not by chance.
 * They are the first of those that `.ci/run` runs after the tests.
 */
const HISTORIES: Readonly<Record<string, number>> = {
  documents: 20,
  redis: 6,
  quorum: 2,
  etcd: 5,
  zookeeper: 6,
};

/** A process of its own: Jest has globals and an event loop of its own in this one. */
function run(...args: readonly string[]) {
  return runWith(process.env, args);
}

function runWith(env: NodeJS.ProcessEnv, args: readonly string[]): Promise<Run> {
  return new Promise((resolve) => {
    const options = { cwd: ROOT, env, maxBuffer: Infinity };
    const child = execFile(process.execPath, args, options, (_, stdout, stderr) =>
      resolve({ status: child.exitCode, output: stdout + stderr }),
    );
  });
}

interface Run {
  readonly status: number | null;
  readonly output: string;
}

const MAIN = 'dist/simulation/test/simulation/main.js';
const simulate = (...args: readonly string[]) => run(MAIN, ...args);
const replay = (plans: readonly string[]) =>
  simulate(...plans.flatMap((file) => ['--plan', `${FOUND}/${file}`]));
const hashOf = async (store: string, seed: number) => {
  const { output } = await simulate('--store', store, '--seed', String(seed));
  return /hash (\w+)/.exec(output)?.[1];
};

describe('the simulation', () => {
  const plans = readdirSync(FOUND).filter((file) => file.endsWith('.json'));
  /** Of one store after the other, while the other tests run. */
  const histories = new Map<string, Promise<Run>>();

  beforeAll(async () => {
    const { status, output } = await run(
      'node_modules/@typescript/native/bin/tsc',
      '-p',
      'test/simulation/tsconfig.json',
    );
    if (status !== 0) throw new Error(output);
    let last: Promise<unknown> = Promise.resolve();
    for (const store of IS_CI ? [] : STORES) {
      const count = String(HISTORIES[store]);
      const next = last.then(() => simulate('--store', store, '--from', '1', '--count', count));
      histories.set(store, next);
      last = next;
    }
  }, TIMEOUT_MS);

  it(
    'finds nothing any more in the plans that have found a bug, and goes the same way again with one of each store',
    async () => {
      const oneOfEach = STORES.map((store) => plans.find((file) => file.startsWith(store)) as string);
      const [all, again] = await Promise.all([plans, oneOfEach].map((files) => replay(files)));
      expect({ ...all, output: all?.status === 0 ? '' : all?.output }).toEqual({ status: 0, output: '' });
      const hashes = again?.output.trim().split('\n') ?? [];
      expect(hashes).toHaveLength(STORES.length);
      expect(all?.output.split('\n')).toEqual(expect.arrayContaining(hashes));
    },
    TIMEOUT_MS,
  );

  it(
    'convicts no plan of which it was wrong once',
    async () => {
      const files = readdirSync(ALARMS).map((file) => `${ALARMS}/${file}`);
      expect(files).not.toEqual([]);
      const { status, output } = await simulate(...files.flatMap((file) => ['--plan', file]));
      expect({ status, output: status === 0 ? '' : output }).toEqual({ status: 0, output: '' });
    },
    TIMEOUT_MS,
  );

  it(
    'goes the same way twice with one seed, and another way with another',
    async () => {
      const [once, again, other] = await Promise.all([3, 3, 4].map((seed) => hashOf('documents', seed)));
      expect(once).toBeDefined();
      expect(again).toBe(once);
      expect(other).not.toBe(once);
    },
    TIMEOUT_MS,
  );

  it.each(STORES)(
    'goes the same way with the async contexts of Node as with its own lighter ones: %s',
    async (store) => {
      const args = [MAIN, '--store', store, '--seed', '2'];
      const [own, light] = await Promise.all([
        runWith({ ...process.env, SIMULATION_CONTEXTS: 'node' }, args),
        runWith(process.env, args),
      ]);
      expect(own.output).toContain('0 broken promises');
      expect(light).toEqual(own);
    },
    TIMEOUT_MS,
  );

  it(
    'begins with the same seed of one commit each time, also where git is missing',
    async () => {
      const program = `import('./dist/simulation/test/simulation/tree-seed.js').then((it) => console.log(it.seedOfTree()))`;
      for (const env of [process.env, { ...process.env, PATH: '' }]) {
        const [once, again] = await Promise.all([1, 2].map(() => runWith(env, ['-e', program])));
        expect(Number(once?.output)).toBeGreaterThan(0);
        expect(again).toEqual(once);
      }
    },
    TIMEOUT_MS,
  );

  it(
    'refuses a command line and a plan with what may stand there, and without a stack',
    async () => {
      const { status, output } = await simulate('--sed', '7');
      expect({ status, output }).toEqual({
        status: 2,
        output: "Unknown option '--sed'. --help lists the options.\n",
      });
      expect((await simulate('--store', 'mongo')).output).not.toContain(' at ');
      expect(await simulate('--help')).toMatchObject({
        status: 0,
        output: expect.stringContaining('--store NAME'),
      });
    },
    TIMEOUT_MS,
  );

  (IS_CI ? describe.skip : describe)('in the histories of its first seeds', () => {
    it.each(STORES)(
      'breaks no promise: %s',
      async (store) => {
        const { status, output } = (await histories.get(store)) as Run;
        expect({ status, output: status === 0 ? '' : output }).toEqual({ status: 0, output: '' });
        expect(output).toContain(`${HISTORIES[store]} histories of ${store}`);
      },
      TIMEOUT_MS,
    );
  });
});
