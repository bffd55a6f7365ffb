import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, release, totalmem, type } from 'node:os';
import { join } from 'node:path';
import { formatMarkdown } from '#markdown';
import { MAX_BUSY_CORES } from '../measure/busy-cores.mjs';
import { EACH_STORE, fillEachStore } from './each-store.mjs';
import { overview } from './overview.mjs';
import { hotWaits, pictures } from './pictures.mjs';
import { fillReadmes } from './readme.mjs';
import { digits } from './targets.mjs';

/** The store of the short page, too, and whose pictures have plain names. */
const MAIN = 'redis';

const SHORT = 'docs';
const TABLES = 'verification/bench/results';

/**
 * Writes the tables of the store, verification/bench/results/<id>.md, with their pictures. Of Redis also the short page, docs/benchmarks.md,
 * which has a row for each store.
 *
 * @param {string} root @param {any[]} results of runScenario
 * @param {{ store: import('../stores/store.d.mts').BenchedStore, version: string, commit: string, busy: number, minutes: number, options: { ms: number, brief?: boolean } }} run
 */
export async function writeReport(root, results, run) {
  const { id, name, how, scenarios } = run.store;
  const [suffix, alone] = id === MAIN ? ['', ''] : [`-${id}`, ` -- --store ${id}`];
  const args = run.options.brief ? ' -- all' : alone;
  const imageOf = (scenario) => `images/bench${suffix}-${scenario}.svg`;
  const drawn = pictures(results);
  const tables = join(root, TABLES);
  const short = join(root, SHORT, 'benchmarks.md');
  for (const folder of [SHORT, TABLES]) mkdirSync(join(root, folder, 'images'), { recursive: true });
  for (const scenario of [...scenarios.map((it) => it.id), 'scaling'])
    rmSync(join(tables, imageOf(scenario)), { force: true });
  for (const [scenario, svg] of drawn) writeFileSync(join(tables, imageOf(scenario)), svg);
  const page = [
    `# Benchmarks on ${name}`,
    `Made by \`npm run bench${args}\`; do not edit. Compare only figures of one run, in which all libraries took turns on one machine.`,
    'In short, and the other stores: [Benchmarks](../../../docs/benchmarks.md).',
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
  const write = async (file, parts) => writeFileSync(file, await formatMarkdown(parts.join('\n\n')));
  await write(join(tables, `${id}.md`), page);
  if (id === MAIN) {
    const picture = hotWaits(results);
    if (picture) writeFileSync(join(root, SHORT, imageOf(HOT_WAITS)), picture);
    const image = picture && imageOf(HOT_WAITS);
    await write(short, shortPage(results, { machine: machine(run), image, args }));
  }
  if (existsSync(short)) await fillEachStore(short, tables);
  if (id === MAIN) await fillReadmes(root, results);
}

const HOT_WAITS = 'hot-waits';

const NOT_COVERED = `- **Distance.** Servers, libraries and callers share one machine. The scenario \`network\`, which delays what clients send to Redis by 1 ms, is not part of this run.
- **More cores.** The server and up to four processes of callers share those of the machine above.
- **Failures.** Nothing fails while it is measured. The members of a cluster share one machine, too, so that what a network between them costs
  does not show. Sentinel and a quorum are not measured.
- **Stores without a row.** \`npm run bench -- --store mariadb\` measures MariaDB. No run of it is recorded.
- **Rare waits.** A turn takes three seconds, so a p99.9 of a scenario with few locks is that of a few of them, or the longest wait.`;

/** @param {any[]} results @param {{ machine: string, image: string | undefined, args: string }} parts `args` of the command */
function shortPage(results, { machine, image, args }) {
  const { compared, figures, asFast } = overview(results);
  return [
    '# Benchmarks',
    `Made by \`npm run bench${args}\`; do not edit. All tables, the limits and how each figure is measured: [verification/bench/results](../verification/bench/results/redis.md).`,
    '## What was compared',
    `One run measured this library and the following ones in turn, each with the defaults that it documents: ${compared}. Redis, the libraries and the callers share one machine:`,
    machine,
    '## Five figures',
    figures,
    'With 1 ms of work, waiting in line alone takes 99 ms. The work under the lock is empty in the rows on `hot4`, so they show the lock alone. This library hands a hot lock off to the next caller of the same process without asking Redis, and to the other processes in turn. Most others ask Redis again and again until the lock is free.',
    image
      ? `![How long 99 in 100 callers wait at most for a key that all ask for, as bars: the values are in the table of hot4, column p99 wait](${image})`
      : '',
    '## Where others are as fast',
    asFast,
    ...['entities', 'feedback', 'handler'].flatMap((id) => sectionOf(results, id)),
    `${EACH_STORE}\n`,
    '## What is not covered',
    NOT_COVERED,
  ];
}

/** A scenario's table on the short page. @param {any[]} results @param {string} id */
function sectionOf(results, id) {
  const result = results.find(({ scenario }) => scenario.id === id);
  return result ? section(result, false) : [];
}

function machine({ store, version, commit, busy, minutes, options }) {
  const [{ model }, ...more] = cpus();
  const memory = Math.round(totalmem() / 2 ** 30);
  return [
    `| Measured | ${new Date().toISOString().slice(0, 10)} |`,
    '| --- | --- |',
    `| Machine | ${more.length + 1} × ${model.trim()}, ${memory} GiB, ${type()} ${release()} |`,
    `| Commit | ${commit} |`,
    `| Versions | Node ${process.versions.node}; ${store.name}, version ${version}, on the same machine |`,
    `| Cores used by other programs | ${busy.toFixed(2)}${busy > MAX_BUSY_CORES ? ': the machine was shared, and all figures are too slow' : ''} |`,
    `| Turns | ${options.ms / 1000} s each, after a warm-up; all contestants take turns. Shown are medians; _least_ is the smallest throughput of a turn |`,
    `| Took | ${Math.ceil(minutes)} minutes |`,
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
