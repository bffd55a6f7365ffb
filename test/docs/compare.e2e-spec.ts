import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { readPage } from '../support/pages.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const page = readPage('docs/compare.md');

interface Table {
  readonly heads: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

function tableIn(text: string): Table {
  const lines = text.split('\n').filter((line) => line.startsWith('|'));
  const cells = lines.map((line) =>
    line
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
  const [heads = [], , ...rows] = cells;
  return { heads, rows };
}

const written = (name: string) =>
  tableIn(page.split(`<!-- ${name}: `)[1]?.split(`<!-- end of ${name} -->`)[0] ?? '');

/** What a script of the comparison exports. Its path is no literal, since it has no types. */
const script = async (path: string) =>
  (await import(`${ROOT}verification/bench/compare/${path}`)) as Record<string, any>;

/** `[name]: target 'title'`: where the evidence of a cell is. */
const definitions = [...page.matchAll(/^\[([\w-]+)\]: (\S+)(?: ['"](.+)['"])?$/gm)].map(
  ([, name = '', target = '', title]) => ({ name, target, title }),
);

describe('the comparison', () => {
  it('has a source for each cell with a link, and no source that no cell needs', () => {
    const used = [...page.matchAll(/\]\[([\w-]+)\]/g)].map(([, name = '']) => name);
    expect([...new Set(used)].sort()).toEqual(definitions.map(({ name }) => name).sort());
    expect(used).not.toEqual([]);
  });

  it.each(definitions.filter(({ target }) => !target.startsWith('https://')))(
    'shows what it says of this library: $name',
    ({ target, title }) => {
      const file = target.replace(/^\.\.\//, '').replace(/^(?=[^/]+$)/, 'docs/');
      expect(existsSync(`${ROOT}${file}`)).toBe(true);
      expect(readPage(file)).toContain(title === undefined ? '' : `'${title}'`);
    },
  );

  it('asks what the script asks, of the same libraries, and this one says yes', async () => {
    const { CHECKS } = await script('checks/index.mjs');
    const { LIBRARIES } = await script('libraries.mjs');
    const { heads, rows } = written('checks');
    expect(heads).toEqual(['', ...Object.keys(LIBRARIES)]);
    expect(rows.map(([says]) => says)).toEqual(Object.values<any>(CHECKS).map(({ says }) => says));
    expect(new Set(rows.map(([, ours]) => ours))).toEqual(new Set(['yes', 'at most 3']));
  });

  it.each(['staleReleaseInMemory', 'reentrant', 'severalKeys', 'permits'])(
    'gives the answer that this library gives: %s',
    async (check) => {
      const args = [`${ROOT}verification/bench/compare/runs/run-check.mjs`, 'this library', check];
      const { stdout } = await promisify(execFile)(process.execPath, args);
      expect(JSON.parse(stdout)).toEqual({ answer: 'yes' });
    },
    30_000,
  );

  it('asks of each task what the script asks, and says what the documentation of the others says', async () => {
    const { TASKS } = await script('tasks/tasks.mjs');
    const { SYSTEMS } = await script('tasks/systems.mjs');
    const { DOCUMENTED, NEEDS } = await script('tasks/documented.mjs');
    const { heads, rows } = written('tasks');
    const [ran, read] = [Object.keys(SYSTEMS), Object.keys(DOCUMENTED)];
    expect(heads).toEqual(['', ...ran, ...read]);
    expect(rows.slice(0, -1).map(([says]) => says)).toEqual(
      Object.values<any>(TASKS).map(({ says }) => says),
    );
    expect(rows.at(-1)?.slice(1)).toEqual([...ran, ...read].map((name) => NEEDS[name]));
    for (const [i, system] of read.entries()) {
      const cells = Object.keys(TASKS).map((task) => DOCUMENTED[system][task] ?? '?');
      expect(rows.slice(0, -1).map((row) => row.at(i - read.length))).toEqual(cells);
    }
  });

  it.each(['alone', 'order', 'limit', 'once', 'token'])(
    'gives the answer that this library gives to a task: %s',
    async (task) => {
      const args = [`${ROOT}verification/bench/compare/runs/run-task.mjs`, 'this library', task];
      const { stdout } = await promisify(execFile)(process.execPath, args);
      expect(JSON.parse(stdout)).toEqual({ answer: 'yes' });
    },
    30_000,
  );

  it('names the versions that are run', () => {
    const { dependencies } = JSON.parse(readPage('verification/bench/peers/package.json'));
    const redisson = /<artifactId>redisson<\/artifactId>\s*<version>([\d.]+)/.exec(
      readPage('verification/interop/pom.xml'),
    )?.[1];
    const text = page.replaceAll(/\s+/g, ' ');
    for (const library of ['redlock', 'redis-semaphore', 'murlock', 'redlock-universal']) {
      expect(text).toContain(`${library} ${dependencies[library]}`);
    }
    for (const [name, it] of [
      ['BullMQ', 'bullmq'],
      ['pg-boss', 'pg-boss'],
    ] as const) {
      expect(text).toContain(`${name} ${dependencies[it]}`);
    }
    expect(text).toContain(`verrou ${dependencies['@verrou/core']}`);
    expect(text).toContain(`Redisson ${redisson}`);
  });
});
