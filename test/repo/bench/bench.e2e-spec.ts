import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';

const SHORT = 'docs/benchmarks.md';
const TABLES = 'verification/bench/results/redis.md';
const MAIN = fileURLToPath(new URL('../../../verification/bench/src/main.mjs', import.meta.url));

/** Without the peers, which nothing but `npm run bench` installs, and without Java, which one of them needs. */
describe('the benchmark', () => {
  const out = mkdtempSync(join(tmpdir(), 'bench-test-'));
  const nowhere = join(out, 'no-java');
  let printed = '';
  let complaints = '';

  beforeAll(async () => {
    const args = [
      '--only',
      'serial,hot4',
      '--peers',
      'floor,redisson',
      // Four processes must get their turns in it, also on a busy machine.
      '--seconds',
      '0.5',
      '--rounds',
      '1',
      // Other tests run beside.
      '--busy',
      '--out',
      out,
    ];
    const env = { ...process.env, JAVA_HOME: nowhere };
    const run = promisify(execFile)(process.execPath, [MAIN, ...args], { env });
    ({ stdout: printed, stderr: complaints } = await run);
  }, 120_000);
  afterAll(() => rmSync(out, { recursive: true, force: true }));

  /** The cells of the first line about `name` that a scenario has printed, by the titles of their columns. */
  function lineOf(scenario: string, name: string): Map<string, string> {
    const lines = printed.slice(printed.indexOf(`\n${scenario}:`)).split('\n');
    const cells = (line = '') =>
      line
        .trim()
        .split(/ {2,}/)
        .filter((cell) => cell !== '');
    const [, ...values] = cells(lines.find((line) => line.trim().startsWith(name)));
    return new Map(cells(lines[2]).map((title, i) => [title, values[i] as string]));
  }

  it('counts exactly two commands for a lock that nobody else wants', () => {
    for (const name of ['floor', 'ours, withLock', 'ours, acquire + release']) {
      expect([name, lineOf('serial', name).get('commands')]).toEqual([name, '2.00']);
    }
  });

  it('lets four processes take locks of one key, none of which fails', () => {
    const ours = lineOf('hot4', 'ours, withLock');
    expect(Number(ours.get('locks/s')?.replaceAll(' ', ''))).toBeGreaterThan(0);
    expect(ours.get('failed')).toBe('0');
  });

  it('says of each figure whether it was reached', () => {
    expect(printed).toMatch(/reached {6}serial: commands for each lock: 2 \(≤ 2\)/);
    expect(printed).toMatch(/(reached|NOT REACHED) +serial: acquire \+ release, share of the floor: [\d.]+/);
  });

  const pageOf = (file: string) => readFileSync(join(out, file), 'utf8');

  it('writes a page with the tables, the machine and a picture for each scenario', () => {
    const page = pageOf(TABLES);
    expect(page).toContain(`Node ${process.versions.node}`);
    expect(page).toMatch(/\| floor: two bare commands +\|/);
    expect(page).toMatch(/\| Commit +\| ([0-9a-f]{12}|unknown)/);
    expect(page).toMatch(/\| Cores used by other programs +\| \d/);
    expect(page).toMatch(/\| locks\/s \| +least \| turns \| p50 wait \| p99 wait \| p99\.9 wait \|/);
    expect(pageOf('verification/bench/results/images/bench-serial.svg')).toContain('two bare commands');
  });

  it('writes a short page, and no figure there beside which no other library has run', () => {
    const page = pageOf(SHORT);
    expect(page.startsWith('# Benchmarks\n')).toBe(true);
    expect(page).not.toContain('npm run bench -- --only');
    expect(pageOf('docs/images/bench-hot-waits.svg')).toContain('ours, withLock');
  });

  it('has a row for the store on the short page, and one for its other client', () => {
    expect(pageOf(SHORT)).toMatch(
      /\| \[Redis\]\(\.\.\/verification\/bench\/results\/redis\.md\) +\| .*\|\n\| .* by node-redis +\| .*\|\n\n## What is not covered/,
    );
  });

  it.each([SHORT, TABLES])('links to pages and pictures that it wrote: %s', (file) => {
    const links = [...pageOf(file).matchAll(/\]\(((?!\.\.\/\.\.\/docs\/recipes)[\w./-]+)[^)]*\)/g)];
    const targets = links.map(([, to]) => join(dirname(file), to as string));
    expect(targets).toContain(file === SHORT ? TABLES : SHORT);
    expect(targets.filter((to) => !existsSync(join(out, to)))).toEqual([]);
  });

  describe('without Java', () => {
    it('says what is needed, measures ours and says nothing about Redisson', () => {
      const all = printed + complaints;
      expect(all).toMatch(/^Redisson is left out\. No Java was found; needed: a JDK of version 17/m);
      expect(all).toMatch(/^ {2}Redisson [\d.]+ \(Java\): needs a JDK 17 and Maven$/m);
      expect(all).toMatch(/^ {2}ours, withLock +\d/m);
      expect(all).not.toContain('times Redisson');
    });
  });
});

describe('the benchmark, asked for what it does not have,', () => {
  it.each([
    ['store', ['--store', 'oracle'], 'redis, postgres, mysql, mariadb, sqlite'],
    ['scenario', ['--only', 'nothing'], 'serial, network, spread'],
    ['scenario', ['--store', 'postgres', '--only', 'network'], 'serial, spread, spread-new, hot4'],
  ])('names each %s that there is, and how it is used', async (what, args, names) => {
    const { stderr } = await promisify(execFile)(process.execPath, [MAIN, ...args]).catch((error) => error);
    expect(stderr).toContain(`There is no ${what} "${args.at(-1)}": ${names}`);
    expect(stderr).toContain('npm run bench -- [--store postgres]');
  });
});
