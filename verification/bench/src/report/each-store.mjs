import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { formatMarkdown } from '#markdown';
import { cellsOf, numberOf, readTable } from './read-table.mjs';

/** The heading on the short page below which `fillEachStore` writes. */
export const EACH_STORE = '## On each store';

const HEAD = [
  'Store',
  'Measured, commit',
  '1 ms of work: p99 wait',
  'One caller: share of the floor',
  'Hot key: locks/s',
  'Most of the others',
  'p99 wait',
  'Limits reached',
];

/**
 * Writes the table of all stores into the short page: one row for each page of results.
 *
 * @param {string} short the file of the short page @param {string} results the folder
 */
export async function fillEachStore(short, results) {
  const files = readdirSync(results).filter((file) => file.endsWith('.md'));
  // A store before its clusters: "etcd" before "etcd-3".
  files.sort((a, b) => (a.replace('.md', '') < b.replace('.md', '') ? -1 : 1));
  const rows = files.flatMap((file) => rowsOf(file, readFileSync(`${results}/${file}`, 'utf8')));
  const table = [`| ${HEAD.join(' | ')} |`, `| --- | --- |${' ---: |'.repeat(HEAD.length - 2)}`, ...rows];
  const [before, after] = readFileSync(short, 'utf8').split(`${EACH_STORE}\n`);
  const next = after.indexOf('\n## ');
  const text = [
    before,
    `${EACH_STORE}\n\n`,
    EXPLAINED,
    '\n\n',
    table.join('\n'),
    '\n',
    after.slice(next),
  ].join('');
  writeFileSync(short, await formatMarkdown(text));
}

const EXPLAINED = `The floor is two bare commands of the same client. The hot key is asked for by 25 callers in each of 4 processes, with 1 ms of
work under the lock (\`hot4-1ms\`) and without (\`hot4\`). Each store was measured by itself, so compare within a row only. No table is written
while other programs use more than half a core.`;

const BY_NODE_REDIS = 'ours by node-redis, withLock';

/** One for the store, and one more where its page has this library with another client. @param {string} file @param {string} page */
function rowsOf(file, page) {
  const [title = ''] = /(?<=^# Benchmarks on ).+/.exec(page) ?? [];
  const link = `[${title}](../verification/bench/results/${file})`;
  const of = (name) => rowOf(page, name);
  const hasOther = readTable(page, 'hot4').some(({ name }) => name === BY_NODE_REDIS);
  const own = `| ${[link, ...of('ours, withLock')].join(' | ')} |`;
  return hasOther ? [own, `| ${[`${link} by node-redis`, ...of(BY_NODE_REDIS)].join(' | ')} |`] : [own];
}

/** @param {string} page @param {string} wanted the name of the row that is ours @returns {string[]} */
function rowOf(page, wanted) {
  const serial = readTable(page, 'serial');
  const hot = readTable(page, 'hot4');
  const isWanted = ({ name }) => name === wanted;
  const ours = hot.find(isWanted);
  const [most] = hot.filter((row) => !isOurs(row)).sort((a, b) => perSecond(b) - perSecond(a));
  const awaited = serial.find(({ name }) => name === 'ours, acquire + release');
  const floor = serial.find(({ name }) => name.startsWith('floor'));
  const limits = cellsOfLimits(page);
  const commit = valueOf(page, 'Commit').split(',')[0];
  return [
    `${valueOf(page, 'Measured')}, ${commit}`,
    readTable(page, 'hot4-1ms').find(isWanted)?.['p99 wait'] ?? '–',
    awaited && floor && wanted !== BY_NODE_REDIS ? (perSecond(awaited) / perSecond(floor)).toFixed(2) : '–',
    ours?.['locks/s'] ?? '–',
    most ? `${most['locks/s']}: ${most.name}` : '–',
    ours?.['p99 wait'] ?? '–',
    limits.length > 0 ? `${limits.filter((it) => it === 'reached').length} of ${limits.length}` : '–',
  ];
}

const isOurs = ({ name }) => name.startsWith('ours');
const perSecond = (row) => numberOf(row['locks/s']);

/** @param {string} page @param {string} name of a row in the table of the machine */
const valueOf = (page, name) => new RegExp(`^\\| ${name} +\\| (.+?) +\\|`, 'm').exec(page)?.[1] ?? '–';

/** @returns {string[]} of each figure that has a limit, whether it was reached */
function cellsOfLimits(page) {
  const [, table = ''] = /\n## Figures to reach\n([^]*?)\n## /.exec(page) ?? [];
  const outcomes = table.split('\n').map((line) => cellsOf(line).at(-1)?.replaceAll('*', ''));
  return outcomes.filter((it) => it === 'reached' || it === 'not reached');
}
