import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { describeWith } from './support/describe-with.js';

const MAIN = fileURLToPath(new URL('../../bench/src/main.mjs', import.meta.url));

/** Without the peers, which nothing but `npm run bench` installs. */
describeWith('postgres')('the benchmark on PostgreSQL', () => {
  const out = mkdtempSync(join(tmpdir(), 'bench-test-'));
  let page = '';

  beforeAll(async () => {
    const what = ['--store', 'postgres', '--only', 'serial,hop', '--peers', 'floor'];
    const how = ['--seconds', '0.2', '--rounds', '1', '--out', out];
    await promisify(execFile)(process.execPath, [MAIN, ...what, ...how]);
    page = readFileSync(join(out, 'benchmarks-postgres.md'), 'utf8');
  }, 120_000);
  afterAll(() => rmSync(out, { recursive: true, force: true }));

  /** The cells below `title`, by the name of their row. */
  function column(section: string, title: string): Map<string, string> {
    const [, table = ''] = page.slice(page.indexOf(`\nScenario \`${section}\``)).split(/\n\n(?=\|)/);
    const cells = (line: string) => line.split('|').map((cell) => cell.trim());
    const [head = '', , ...rows] = table.split('\n\n')[0]?.split('\n') ?? [];
    const at = cells(head).indexOf(title);
    return new Map(rows.map(cells).map((row) => [row[1] as string, row[at] as string]));
  }

  it('counts exactly two statements for a lock that nobody else wants, and fewer where a release and the next acquire go together', () => {
    const statements = column('serial', 'statements');
    expect(statements.get('floor: two bare statements')).toBe('2.00');
    expect(statements.get('ours, acquire + release')).toBe('2.00');
    expect(Number(statements.get('ours, withLock'))).toBeLessThan(2);
  });

  it('measures hand-offs between two processes beside those of functions in the server', () => {
    const hops = column('hop', 'hand-offs/s');
    expect([...hops.keys()]).toEqual(['floor: a PL/pgSQL function per call', 'ours, withLock']);
    for (const count of hops.values()) expect(Number(count)).toBeGreaterThan(0);
    expect([...column('hop', 'failed').values()]).toEqual(['0', '0']);
  });

  it('writes a page of its own, with a picture for each scenario', () => {
    expect(page).toMatch(/^# Benchmarks on PostgreSQL\n\nMade by `npm run bench -- --store postgres`/);
    const images = [...page.matchAll(/\]\((images\/.*?\.svg)\)/g)].map(([, image]) => image as string);
    expect(images).toEqual(['images/bench-postgres-serial.svg', 'images/bench-postgres-hop.svg']);
    expect(images.filter((image) => !existsSync(join(out, image)))).toEqual([]);
  });
});
