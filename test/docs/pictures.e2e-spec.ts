import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { RENEWALS_PER_LEASE } from '../../libs/distributed-lock/src/lock/core/lease.js';
import { RECHECK_MS } from '../../libs/distributed-lock/src/port/recheck-interval.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FOLDERS = ['docs', 'verification/bench/results'];
const svgs = FOLDERS.flatMap((folder) =>
  readdirSync(`${ROOT}/${folder}/images`)
    .filter((file) => file.endsWith('.svg'))
    .map((file) => `${folder}/images/${file}`),
);
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

  it('of a hot key says what the words beside it say', () => {
    const rows = run<Record<string, string>[]>('pictures/hot-key.mjs', 'it.hotKeyOnThePage()');
    const column = (name: string) =>
      rows.map((row) => Number.parseFloat(row[name]?.replaceAll(' ', '') ?? ''));
    const [ours, ...theirs] = column('p99 wait') as [number, ...number[]];
    expect(Math.min(...column('lock in use'))).toBeGreaterThan(50);
    expect(column('fairness')[0]).toBeGreaterThan(0.95);
    expect(ours).toBeLessThan(Math.min(...theirs) / 3);
    expect(Math.max(...column('p50 wait').slice(1))).toBeLessThan(5);
    expect(column('commands')[0]).toBeLessThan(1);
  });

  it('are shown by a page, with a sentence for those who cannot see them', () => {
    const pages = FOLDERS.flatMap((folder) =>
      readdirSync(`${ROOT}/${folder}`, { recursive: true, encoding: 'utf8' })
        .filter((page) => page.endsWith('.md'))
        .map((page) => textOf(`${folder}/${page}`)),
    );
    const shown = pages.flatMap((page) => [...page.matchAll(/!\[([^\]]*)\]\(\S*images\/(\S+\.svg)\)/g)]);
    const altOf = new Map(shown.map(([, alt = '', file]) => [file, alt]));
    expect(svgs.filter((file) => (altOf.get(basename(file))?.length ?? 0) < 40)).toEqual([]);
  });
});

describe.each(svgs)('the picture %s', (file) => {
  const svg = textOf(file);

  it('is well-formed, small, and has all it needs in itself', () => {
    expect(unclosed(svg)).toEqual([]);
    expect(svg.length).toBeLessThan(12_000);
    expect(svg.replace('xmlns="http://www.w3.org/2000/svg"', '')).not.toMatch(
      /https?:|url\(|@import|@font-face|href/,
    );
  });

  it('has a title and a description, which screen readers read', () => {
    expect(svg).toMatch(/<svg [^>]*role="img">\n<title>[^<]{10,}<\/title>\n<desc>[^<]{40,}<\/desc>/);
  });

  it('is readable on a phone: 13 of 460 are 9 of 320', () => {
    expect(svg).toContain('viewBox="0 0 460 ');
    const sizes = [...svg.matchAll(/font(?:-size)?: (\d+)px/g)].map(([, size]) => Number(size));
    expect(Math.min(...sizes)).toBeGreaterThanOrEqual(13);
  });
});

/** Tags that are not closed in order, and texts with a bare < or &. */
function unclosed(xml: string): string[] {
  const open: string[] = [];
  const rest = xml.replaceAll(
    /<(\/?)([a-z]+)((?: [\w:-]+="[^"<&]*")*)(\/?)>/gi,
    (_, end, name, _attributes, alone) => {
      if (end && open.at(-1) === name) open.pop();
      else if (!alone) open.push(`${end}${name}`);
      return '';
    },
  );
  return [...open, ...(rest.match(/<|&(?!amp;|lt;)/g) ?? [])];
}
