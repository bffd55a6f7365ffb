import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { formatMarkdown } from '#markdown';
import { cellsOf, numberOf, readTable } from './read-table.mjs';

/** The heading on the short page below which `fillEachStore` writes. */
export const EACH_STORE = '## On each store';

const HEAD = [
  'Store',
  'Measured, load',
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
  const rows = files.map((file) => rowOf(file, readFileSync(`${results}/${file}`, 'utf8')));
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

const EXPLAINED = `The floor is two bare commands of the same client. The hot key is asked for by 25 callers in each of 4 processes
(\`hot4\`). Each row is a run of its own, so compare within a row only. A machine with a load of more than 0.5 had other work to do.`;

/** @param {string} file @param {string} page */
function rowOf(file, page) {
  const [title = ''] = /(?<=^# Benchmarks on ).+/.exec(page) ?? [];
  const serial = readTable(page, 'serial');
  const hot = readTable(page, 'hot4');
  const ours = hot.find(isOurs);
  const [most] = hot.filter((row) => !isOurs(row)).sort((a, b) => perSecond(b) - perSecond(a));
  const awaited = serial.find(({ name }) => name === 'ours, acquire + release');
  const floor = serial.find(({ name }) => name.startsWith('floor'));
  const limits = cellsOfLimits(page);
  const cells = [
    `[${title}](../verification/bench/results/${file})`,
    `${valueOrThrow(page, 'Measured')}, ${Number.parseFloat(valueOrThrow(page, 'Load average before'))}`,
    awaited && floor ? (perSecond(awaited) / perSecond(floor)).toFixed(2) : '–',
    ours?.['locks/s'] ?? '–',
    most ? `${most['locks/s']}: ${most.name}` : '–',
    ours?.['p99 wait'] ?? '–',
    `${limits.filter((it) => it === 'reached').length} of ${limits.length}`,
  ];
  return `| ${cells.join(' | ')} |`;
}

const isOurs = ({ name }) => name.startsWith('ours');
const perSecond = (row) => numberOf(row['locks/s']);

/** @param {string} page @param {string} name of a row in the table of the machine */
const valueOrThrow = (page, name) => new RegExp(`^\\| ${name} +\\| (.+?) +\\|`, 'm').exec(page)?.[1] ?? '–';

/** @returns {string[]} of each figure that has a limit, whether it was reached */
function cellsOfLimits(page) {
  const [, table = ''] = /\n## Figures to reach\n([^]*?)\n## /.exec(page) ?? [];
  const outcomes = table.split('\n').map((line) => cellsOf(line).at(-1)?.replaceAll('*', ''));
  return outcomes.filter((it) => it === 'reached' || it === 'not reached');
}
