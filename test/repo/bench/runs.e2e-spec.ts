import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const BENCH = new URL('../../../verification/bench/src/', import.meta.url);

interface Quiet {
  readonly MAX_BUSY_CORES: number;
  busyCores(watchMs: number): Promise<number>;
  untilQuiet(how: {
    readonly measure: () => Promise<number>;
    readonly patienceMs: number;
    readonly againMs: number;
  }): Promise<number>;
}

describe('the benchmark on a machine that others use', () => {
  let quiet: Quiet;
  beforeAll(async () => {
    quiet = await import(fileURLToPath(new URL('measure/busy-cores.mjs', BENCH)));
  });

  /** The cores that others use, one look after the other. The last one stays. */
  function looks(...cores: readonly number[]) {
    let look = 0;
    return async () => cores[Math.min(look++, cores.length - 1)] as number;
  }

  it('begins when they have ended, with what they use still', async () => {
    const used = quiet.untilQuiet({ measure: looks(1.9, 0.51, 0.5), patienceMs: 60_000, againMs: 0 });
    expect(await used).toBe(0.5);
    expect(quiet.MAX_BUSY_CORES).toBe(0.5);
  });

  it('refuses to write a table, and says how busy the machine is and what to do', async () => {
    const refused = quiet.untilQuiet({ measure: looks(0.9, 1.37), patienceMs: 0, againMs: 0 });
    await expect(refused).rejects.toThrow(
      /^Other programs use 0\.90 of the \d+ cores, more than 0\.5: no table/,
    );
    await expect(refused).rejects.toThrow('--busy');
  });

  it('counts the cores that work, by the clock of the kernel', async () => {
    const worksUntil = performance.now() + 300;
    const watched = quiet.busyCores(200);
    while (performance.now() < worksUntil);
    // This process alone worked all the time.
    expect(await watched).toBeGreaterThan(0.5);
  });
});

describe('the figures of several turns', () => {
  it('are medians, and the least throughput beside', async () => {
    const { medianOf } = await import(fileURLToPath(new URL('measure/statistics.mjs', BENCH)));
    const turns = [
      { perSecond: 30, p99Ms: 5, name: 'one' },
      { perSecond: 10, p99Ms: 9, name: 'two' },
      { perSecond: 20, p99Ms: 7, name: 'three' },
    ];
    expect(medianOf(turns)).toEqual({ perSecond: 20, leastPerSecond: 10, p99Ms: 7, turns: 3, name: 'one' });
  });
});

describe('a run of all stores', () => {
  it('has at each of them scenarios that the store has, of which serial and both hot keys are in the table of all', async () => {
    const { STORES } = await import(fileURLToPath(new URL('stores/index.mjs', BENCH)));
    for (const { id, brief, scenarios } of STORES) {
      const ids = scenarios.map((scenario: { id: string }) => scenario.id);
      expect([id, Object.keys(brief).filter((wanted) => !ids.includes(wanted))]).toEqual([id, []]);
      expect([id, Object.keys(brief)]).toEqual([id, expect.arrayContaining(['serial', 'hot4', 'hot4-1ms'])]);
    }
  });
});

describe('the pages of a run of all stores', () => {
  const out = mkdtempSync(join(tmpdir(), 'bench-pages-'));
  const pageOf = (file: string) => readFileSync(join(out, file), 'utf8');
  const READMES = ['README.md', 'docs/zh/README.md'];

  /** What a run would have found, without one: the same for all, and a little less for each further contestant. */
  function resultsOf({ scenarios, brief }: BenchedStore) {
    const rowOf = ({ id, name }: { readonly id: string; readonly name: string }, i: number) => {
      const figures = Object.fromEntries(FIGURE_NAMES.map((figure) => [figure, 1234 - i]));
      return { id, name, figures: { ...figures, exact: true, failures: 0 } };
    };
    const wanted = scenarios.filter(({ id }) => id in brief);
    return wanted.map((scenario) => ({ scenario, rows: scenario.entrants().map(rowOf), verdicts: [] }));
  }

  beforeAll(async () => {
    mkdirSync(join(out, 'docs/zh'), { recursive: true });
    for (const file of READMES) copyFileSync(join(ROOT, file), join(out, file));
    const { STORES } = await import(fileURLToPath(new URL('stores/index.mjs', BENCH)));
    const { writeReport } = await import(fileURLToPath(new URL('report/page.mjs', BENCH)));
    const run = {
      version: '1.2',
      commit: '0123456789ab',
      busy: 0.1,
      minutes: 3,
      options: { ms: 3000, brief: true },
    };
    for (const store of STORES) await writeReport(out, resultsOf(store), { ...run, store });
  }, 60_000);
  afterAll(() => rmSync(out, { recursive: true, force: true }));

  it('are one for each store, all of which the short page has with the commit, and once more Redis by node-redis', () => {
    const short = pageOf('docs/benchmarks.md');
    const files = readdirSync(join(out, 'verification/bench/results')).filter((file) => file.endsWith('.md'));
    expect(files.length).toBeGreaterThan(10);
    for (const file of files) {
      expect(short).toMatch(new RegExp(`results/${file}\\) +\\| \\S+, 0123456789ab +\\| +1 234 ms`));
      expect(pageOf(`verification/bench/results/${file}`)).toContain('Made by `npm run bench -- all`');
    }
    expect(short).toMatch(/results\/redis\.md\) by node-redis +\|/);
  });

  it('begin with the wait of a hot key with work under it, and have both published workloads', () => {
    const short = pageOf('docs/benchmarks.md');
    const [, first = ''] = /\n\| -+ .*\n(.*)/.exec(short.slice(short.indexOf('## Five figures'))) ?? [];
    expect(first).toContain('1 ms of work');
    for (const scenario of ['entities', 'feedback', 'handler']) {
      expect(short).toMatch(new RegExp(`Scenario \`${scenario}\`[^]*?\\n\\| `));
    }
  });

  it.each(READMES)('have the figures of %s', (file) => {
    expect(pageOf(file)).toMatch(/\| +1 234 (ms at|毫秒，)/);
  });
});

const FIGURE_NAMES = [
  [
    'perSecond',
    'leastPerSecond',
    'turns',
    'p50Ms',
    'p99Ms',
    'p999Ms',
    'maxMs',
    'jain',
    'processJain',
    'commands',
  ],
  [
    'serverUs',
    'clientUs',
    'inUse',
    'unfinished',
    'tookMeanMs',
    'tookP50Ms',
    'tookP95Ms',
    'tookP99Ms',
    'tookP999Ms',
  ],
  [
    'requests',
    'errorShare',
    'nodeUs',
    'clientShare',
    'serverShare',
    'timers',
    'bytesEach',
    'perKey',
    'nodeShare',
  ],
].flat();

interface BenchedStore {
  readonly brief: object;
  readonly scenarios: readonly {
    readonly id: string;
    entrants(): readonly { readonly id: string; readonly name: string }[];
  }[];
}

describe('the figures of the README', () => {
  const FIGURES = {
    work: {
      ours: { ms: '111 ms', perSecond: '901' },
      other: { ms: '222 ms', perSecond: '702', name: 'another' },
    },
    serial: { ours: '5 001', least: '1 001', most: '9 001', median: '4 001' },
    hop: {
      ours: { ms: '0.61 ms', perSecond: '251' },
      other: { ms: '0.21 ms', perSecond: '91', name: 'a third' },
    },
  };

  it.each(['README.md', 'docs/zh/README.md'])(
    'are written by a run, into the rows that are there: %s',
    async (file) => {
      const { READMES, withFigures } = await import(fileURLToPath(new URL('report/readme.mjs', BENCH)));
      const before = readFileSync(join(ROOT, file), 'utf8');
      const after: string = await withFigures(before, READMES[file], FIGURES);
      const rowsOf = (text: string) => text.split('\n').filter((line) => line.startsWith('|')).length;
      expect(rowsOf(after)).toBe(rowsOf(before));
      const [first = '', ...others] = after.slice(after.indexOf(READMES[file].first)).split('\n').slice(2);
      for (const figure of ['111', '901', '222', '702', 'another']) expect(first).toContain(figure);
      for (const figure of ['5 001', '1 001', '9 001', '4 001']) expect(others[0]).toContain(figure);
      for (const figure of ['0.61', '251', '0.21', '91', 'a third']) expect(others[1]).toContain(figure);
      expect(await withFigures(after, READMES[file], FIGURES)).toBe(after);
    },
  );
});
