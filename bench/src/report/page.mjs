import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, release, totalmem, type } from 'node:os';
import { join } from 'node:path';
import { format } from 'prettier';
import { HOW } from './how.mjs';
import { pictures } from './pictures.mjs';
import { digits } from './targets.mjs';

/**
 * Writes benchmarks.md and images/bench-*.svg.
 *
 * @param {string} folder @param {any[]} results of runScenario
 * @param {{ redis: string, minutes: number, options: { ms: number, rounds: number } }} run
 */
export async function writeReport(folder, results, run) {
  const drawn = pictures(results);
  mkdirSync(join(folder, 'images'), { recursive: true });
  for (const [id, svg] of drawn) writeFileSync(join(folder, 'images', `bench-${id}.svg`), svg);
  const page = [
    '# Benchmarks',
    'Made by `npm run bench`; do not edit. Compare within one run only: all contestants took turns on one machine.',
    machine(run),
    '## Figures to reach',
    figuresToReach(results),
    ...results.flatMap((result) => section(result, drawn)),
    drawn.has('scaling')
      ? `## Growth\n\n![What one costs as they become more](images/bench-scaling.svg)`
      : '',
    HOW,
  ].join('\n\n');
  writeFileSync(join(folder, 'benchmarks.md'), await format(page, { ...STYLE, parser: 'markdown' }));
}

const STYLE = { singleQuote: true, printWidth: 110 };

function machine({ redis, minutes, options }) {
  const [{ model }, ...more] = cpus();
  const memory = Math.round(totalmem() / 2 ** 30);
  return [
    `| Measured | ${new Date().toISOString().slice(0, 10)} |`,
    '| --- | --- |',
    `| Machine | ${more.length + 1} × ${model.trim()}, ${memory} GiB, ${type()} ${release()} |`,
    `| Versions | Node ${process.versions.node}, Redis ${redis} on the same machine |`,
    `| Runs | ${options.ms / 1000} s each, median of ${options.rounds}; ${Math.ceil(minutes)} minutes in all |`,
  ].join('\n');
}

function figuresToReach(results) {
  const lines = results.flatMap(({ scenario, verdicts }) =>
    verdicts.map(
      ({ claim, value, limit, outcome }) =>
        `| ${scenario.id} | ${claim} | ${digits(value)} | ${limit} | ${outcome === 'not reached' ? '**not reached**' : outcome} |`,
    ),
  );
  return [
    '| Scenario | Figure | Measured | To reach | |',
    '| --- | --- | ---: | ---: | --- |',
    ...lines,
  ].join('\n');
}

function section({ scenario, rows }, drawn) {
  const { id, title, note, columns } = scenario;
  const head = `| | ${columns.map((column) => column.title).join(' | ')} |`;
  const lines = rows
    .filter(({ figures }) => figures)
    .map(({ name, figures }) => `| ${name} | ${columns.map(({ of }) => of(figures)).join(' | ')} |`);
  const skipped = rows.filter((row) => row.skipped).map((row) => `${row.name}: ${row.skipped}.`);
  return [
    `## ${title}`,
    `Scenario \`${id}\`. ${note ?? ''}`,
    drawn.has(id) ? `![${title}](images/bench-${id}.svg)` : '',
    [head, `| --- | ${columns.map(() => '---:').join(' | ')} |`, ...lines].join('\n'),
    skipped.join(' '),
  ];
}
