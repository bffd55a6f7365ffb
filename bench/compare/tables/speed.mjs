// The table of speed in docs/compare.md: some columns of bench/results/redis.md, figure by figure.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { readTable } from '../../src/report/read-table.mjs';

const PAGE = fileURLToPath(new URL('../../../bench/results/redis.md', import.meta.url));

const ROWS = {
  'this library': /^ours, withLock$/,
  redlock: /^redlock v?\d/,
  'redis-semaphore': /^redis-semaphore /,
  murlock: /^murlock /,
  'redlock-universal': /^redlock-universal /,
  verrou: /^@verrou\/core /,
  'Redisson, `RLock`': /^Redisson [\d.]+ \(Java\)$/,
  'Redisson, `RFairLock`': /^Redisson [\d.]+ \(Java\), fair$/,
};

const COLUMNS = {
  'one caller: locks/s': ['serial', 'locks/s'],
  'commands for each': ['serial', 'commands'],
  'hot key: locks/s': ['hot4', 'locks/s'],
  'p99 wait': ['hot4', 'p99 wait'],
  refused: ['hot4', 'failed'],
  fairness: ['hot4', 'fairness'],
  'hand-offs/s': ['hop', /^hand-\w+\/s$/],
};

/** The heads and the rows. */
export function speed() {
  const page = readFileSync(PAGE, 'utf8');
  const figures = Object.values(COLUMNS).map(([scenario, column]) => columnOf(page, scenario, column));
  const rows = Object.entries(ROWS).map(([library, name]) => [
    library,
    ...figures.map((column) => column.find(([row]) => name.test(row))?.[1] ?? '–'),
  ]);
  return { heads: Object.keys(COLUMNS), rows };
}

/** @returns {[row: string, figure: string][]} */
function columnOf(page, scenario, column) {
  return readTable(page, scenario).map(({ name, ...row }) => {
    const title = Object.keys(row).find((it) => (column instanceof RegExp ? column.test(it) : it === column));
    return [name, row[title]];
  });
}
