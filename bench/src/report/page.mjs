import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, release, totalmem, type } from 'node:os';
import { join } from 'node:path';
import { format } from 'prettier';
import { pictures } from './pictures.mjs';
import { digits } from './targets.mjs';

/** The store whose page has the plain name. */
const MAIN = 'redis';

/**
 * Writes benchmarks.md and images/bench-*.svg, for another store than Redis with its id in the name.
 *
 * @param {string} folder @param {any[]} results of runScenario
 * @param {{ store: import('../stores/store.d.mts').BenchedStore, version: string, load: number, minutes: number, options: { ms: number, rounds: number } }} run
 */
export async function writeReport(folder, results, run) {
  const { id, name, how } = run.store;
  const [suffix, title, args] = id === MAIN ? ['', '', ''] : [`-${id}`, ` on ${name}`, ` -- --store ${id}`];
  const file = `benchmarks${suffix}.md`;
  const imageOf = (scenario) => `images/bench${suffix}-${scenario}.svg`;
  const drawn = pictures(results);
  mkdirSync(join(folder, 'images'), { recursive: true });
  for (const [scenario, svg] of drawn) writeFileSync(join(folder, imageOf(scenario)), svg);
  const page = [
    `# Benchmarks${title}`,
    `Made by \`npm run bench${args}\`; do not edit. Compare within one run only: all contestants took turns on one machine.`,
    otherPages(folder, file),
    machine(run),
    '## Figures to reach',
    figuresToReach(results),
    ...results.flatMap((result) =>
      section(result, drawn.has(result.scenario.id) && imageOf(result.scenario.id)),
    ),
    drawn.has('scaling')
      ? `## Growth\n\n![What one costs as they become more, as lines: the values are in the tables above](${imageOf('scaling')})`
      : '',
    how,
  ].join('\n\n');
  writeFileSync(join(folder, file), await format(page, { ...STYLE, parser: 'markdown' }));
}

/** Links to the pages of the other stores that have been measured. @param {string} folder @param {string} own */
function otherPages(folder, own) {
  const others = readdirSync(folder).filter((file) => /^benchmarks(-\w+)?\.md$/.test(file) && file !== own);
  const link = (file) =>
    `[${readFileSync(join(folder, file), 'utf8').split('\n')[0].slice('# '.length)}](${file})`;
  return others.length === 0 ? '' : `Other stores: ${others.sort().map(link).join(', ')}.`;
}

/** A load from which on the figures are those of other programs, too. */
const SHARED = 0.5;

const STYLE = { singleQuote: true, printWidth: 110 };

function machine({ store, version, load, minutes, options }) {
  const [{ model }, ...more] = cpus();
  const memory = Math.round(totalmem() / 2 ** 30);
  return [
    `| Measured | ${new Date().toISOString().slice(0, 10)} |`,
    '| --- | --- |',
    `| Machine | ${more.length + 1} × ${model.trim()}, ${memory} GiB, ${type()} ${release()} |`,
    `| Versions | Node ${process.versions.node}, ${store.name} ${version} on the same machine |`,
    `| Load before | ${load.toFixed(1)}${load > SHARED ? ', by other programs: the machine was shared, and all figures are too slow' : ''} |`,
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

/** @param {any} result of runScenario @param {string | false} image */
function section({ scenario, rows }, image) {
  const { id, title, note, columns, plot } = scenario;
  const head = `| | ${columns.map((column) => column.title).join(' | ')} |`;
  const lines = rows
    .filter(({ figures }) => figures)
    .map(({ name, figures }) => `| ${name} | ${columns.map(({ of }) => of(figures)).join(' | ')} |`);
  const skipped = rows.filter((row) => row.skipped).map((row) => `${row.name}: ${row.skipped}.`);
  return [
    `## ${title}`,
    `Scenario \`${id}\`. ${note ?? ''}`,
    image ? `![${title}. ${plot.title}, as bars: the values are in the table below](${image})` : '',
    [head, `| --- | ${columns.map(() => '---:').join(' | ')} |`, ...lines].join('\n'),
    skipped.join(' '),
  ];
}
