import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { InputError } from '../input-error.js';
import { optionsOf } from '../options.js';
import { expectedCounts } from './count-history.js';
import { Summary } from './summary.js';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const MAIN = 'dist/simulation/test/simulation/main.js';
const PRELOAD = './verification/chaos/mutants/preload.mjs';
/** Every history breaks a promise. */
const MUTANT = {
  file: 'test/simulation/checker/check.js',
  from: '...history.violations,',
  to: "{ rule: 'planted', text: 'by the spec' }, ...history.violations,",
};
const TIMEOUT_MS = 120_000;

interface Run {
  readonly code: number | null;
  readonly output: string;
}

function simulate(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const child = spawn(process.execPath, args, { cwd: ROOT, env: { ...process.env, ...env } });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output += text));
  const ended = new Promise<Run>((resolve) => child.on('close', (code) => resolve({ code, output })));
  return { child, ended };
}

/** The processes that this one has started and that live. */
function childrenOf(pid: number): readonly number[] {
  return readdirSync('/proc')
    .filter((it) => /^\d+$/.test(it))
    .map(Number)
    .filter((it) => parentOf(it) === pid);
}

function parentOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return undefined;
  }
}

describe('a summary over several processes', () => {
  beforeAll(async () => {
    const { code, output } = await simulate([
      'node_modules/@typescript/native/bin/tsc',
      '-p',
      'test/simulation/tsconfig.json',
    ]).ended;
    if (code !== 0) throw new Error(output);
  }, TIMEOUT_MS);

  it('adds reports up, and names what never happened', () => {
    const summary = new Summary();
    const failure = { seed: '7', rule: 'exclusion', text: 'two holders' };
    summary.add({
      histories: 3,
      events: 50,
      cpuSeconds: 1,
      counts: { 'fault: lose': 2 },
      failures: [failure],
    });
    summary.add({
      histories: 1,
      events: 5,
      cpuSeconds: 1,
      counts: { 'fault: lose': 1, other: 4 },
      failures: [],
    });
    const lines = summary.lines('redis');
    expect(lines.slice(0, 3)).toEqual([
      '        3 fault: lose',
      '        4 other',
      '    never call: withLock',
    ]);
    expect(lines).toContain('    never step: nested');
    expect(lines).not.toContain('    never fault: lose');
    expect(lines.slice(-3)).toEqual([
      'seed 7: exclusion: two holders',
      '  Again: npm run simulate -- --store redis --seed 7 --shrink',
      '4 histories of redis, 1 with broken promises, 55 events, 2.0 CPU seconds, 500.0 ms each',
    ]);
    expect(new Set(expectedCounts()).size).toBe(expectedCounts().length);
  });

  it(
    'runs each seed once, and prints one summary',
    async () => {
      const [two, one] = await Promise.all(
        ['2', '1'].map((jobs) => simulate([MAIN, '--from', '40', '--count', '5', '--jobs', jobs]).ended),
      );
      expect(two).toMatchObject({
        code: 0,
        output: expect.stringMatching(
          /\n5 histories of documents, 0 with broken promises, \d+ events, [^\n]+\n$/,
        ),
      });
      // All is counted alike, but the CPU time.
      const withoutTime = ({ output }: Run) => output.replace(/, [\d.]+ CPU seconds.*/, '');
      expect(withoutTime(two as Run)).toBe(withoutTime(one as Run));
    },
    TIMEOUT_MS,
  );

  it(
    'says which seeds fail, and fails; without --all the first one stops all jobs',
    async () => {
      const env = { CHAOS_MUTANT: JSON.stringify(MUTANT) };
      const args = ['--import', PRELOAD, MAIN, '--from', '40', '--jobs', '2'];
      const all = await simulate([...args, '--count', '4', '--all'], env).ended;
      expect(all).toMatchObject({ code: 1, output: expect.stringContaining('4 with broken promises') });
      expect(all.output).toContain('Again: npm run simulate -- --store documents --seed 41 --shrink');
      const first = await simulate([...args, '--count', '100000'], env).ended;
      expect(first).toMatchObject({
        code: 1,
        output: expect.stringMatching(/, \d{1,2} with broken promises/),
      });
    },
    TIMEOUT_MS,
  );

  it(
    'with --safety says which seeds fail, and fails only where exclusion, tokens or belief are broken',
    async () => {
      const args = ['--import', PRELOAD, MAIN, '--from', '40', '--count', '2', '--all', '--safety'];
      const breaking = (rule: string) => {
        const mutant = { ...MUTANT, to: MUTANT.to.replace('planted', rule) };
        return simulate(args, { CHAOS_MUTANT: JSON.stringify(mutant) }).ended;
      };
      const late = await breaking('lateness');
      expect(late).toMatchObject({
        code: 0,
        output: expect.stringContaining('0 with broken promises, 2 reported'),
      });
      expect(late.output).toContain('Again: npm run simulate -- --store documents --seed 41 --shrink');
      for (const rule of ['exclusion', 'tokens', 'belief'])
        expect(await breaking(rule)).toMatchObject({
          code: 1,
          output: expect.stringContaining('2 with broken promises, 0 reported'),
        });
    },
    TIMEOUT_MS,
  );

  it(
    'ends its jobs when it is interrupted, prints the summary of what ran, and fails',
    async () => {
      const { child, ended } = simulate([MAIN, '--count', '100000', '--jobs', '2', '--all']);
      const pid = child.pid as number;
      while (childrenOf(pid).length < 2) await new Promise((resolve) => setTimeout(resolve, 50));
      const jobs = childrenOf(pid);
      child.kill('SIGINT');
      expect(await ended).toMatchObject({ code: 1, output: expect.stringMatching(/Not all seeds ran\.\n$/) });
      expect(jobs.map(parentOf)).toEqual([undefined, undefined]);
    },
    TIMEOUT_MS,
  );

  it('needs an end, and a number of jobs that a machine can have', () => {
    expect(() => optionsOf(['--jobs', '2'])).toThrow(InputError);
    expect(() => optionsOf(['--jobs', '2'])).toThrow('--jobs goes with --count or --minutes.');
    expect(() => optionsOf(['--jobs', '65', '--count', '9'])).toThrow(
      '--jobs is a whole number from 1 to 64',
    );
    expect(() => optionsOf(['--jobs', '2', '--seed', '9'])).toThrow('--seed and --jobs do not go together');
  });
});
