import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, release, totalmem, type } from 'node:os';
import { join } from 'node:path';
import { format } from 'prettier';
import { linkPages, LINKS } from './link-pages.mjs';
import { overview } from './overview.mjs';
import { hotWaits, pictures } from './pictures.mjs';
import { digits } from './targets.mjs';

/** The store of the short page, too, and whose pictures have plain names. */
const MAIN = 'redis';

/**
 * Writes the page of the store, benchmarks-<id>.md, its pictures, and of Redis the short page benchmarks.md.
 *
 * @param {string} folder @param {any[]} results of runScenario
 * @param {{ store: import('../stores/store.d.mts').BenchedStore, version: string, load: number, minutes: number, options: { ms: number, rounds: number } }} run
 */
export async function writeReport(folder, results, run) {
  const { id, name, how } = run.store;
  const [suffix, args] = id === MAIN ? ['', ''] : [`-${id}`, ` -- --store ${id}`];
  const imageOf = (scenario) => `images/bench${suffix}-${scenario}.svg`;
  const drawn = pictures(results);
  mkdirSync(join(folder, 'images'), { recursive: true });
  for (const [scenario, svg] of drawn) writeFileSync(join(folder, imageOf(scenario)), svg);
  const page = [
    `# Benchmarks on ${name}`,
    `Made by \`npm run bench${args}\`; do not edit. Compare only figures of one run, in which all libraries took turns on one machine.`,
    LINKS,
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
  ];
  const write = async (file, parts) =>
    writeFileSync(join(folder, file), await format(parts.join('\n\n'), { ...STYLE, parser: 'markdown' }));
  await write(`benchmarks-${id}.md`, page);
  if (id === MAIN) {
    const picture = hotWaits(results);
    if (picture) writeFileSync(join(folder, imageOf(HOT_WAITS)), picture);
    await write('benchmarks.md', shortPage(results, machine(run), picture && imageOf(HOT_WAITS)));
  }
  linkPages(folder);
}

const HOT_WAITS = 'hot-waits';

/** @param {any[]} results @param {string} machine @param {string | undefined} image */
function shortPage(results, machine, image) {
  const { compared, figures, asFast } = overview(results);
  return [
    '# Benchmarks',
    'Made by `npm run bench`; do not edit. All tables, the limits and how each figure is measured: [Benchmarks on Redis](benchmarks-redis.md).',
    LINKS,
    '## What was compared',
    `One run measured this library and the following ones in turn, each with the defaults that it documents: ${compared}. Redis, the libraries and the callers share one machine:`,
    machine,
    '## Four figures',
    figures,
    'The work under the lock is empty in the first three rows, so they show the lock alone. This library hands a hot lock off to the next caller of the same process without asking Redis, and to the other processes in turn. Most others ask Redis again and again until the lock is free.',
    image
      ? `![How long 99 in 100 callers wait at most for a key that all ask for, as bars: the values are in the table of hot4, column p99 wait](${image})`
      : '',
    '## Where others are as fast',
    asFast,
  ];
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
    `| Load average before | ${load.toFixed(1)}${load > SHARED ? ', by other programs: the machine was shared, and all figures are too slow' : ''} |`,
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
