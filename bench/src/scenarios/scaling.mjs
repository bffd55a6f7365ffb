import { OURS } from '../../contestants/index.mjs';
import { takeTurns } from '../measure/take-turns.mjs';
import { count, whole } from '../report/format.mjs';
import { atMost } from '../report/targets.mjs';
import { holdLocks } from './hold.mjs';

/** Between two sizes the cost of one may grow by so much at most: noise, and caches that fill. */
const TOLERANCE = 1.5;
const HOLD_MS = 11_000;

/** @param {string} id @param {string} what @param {number[]} sizes */
const growth = (id, what, sizes, measure) => ({
  id,
  title: `How the cost grows with ${what}`,
  entrants: () =>
    sizes.map((size) => ({ ...OURS, id: `ours-${size}`, name: `${whole(size)} ${what}`, size })),
  rounds: 1,
  measure,
  lines: what,
  targets: ({ rows }) => [
    atMost(
      `largest step of the cost of one, from one number of ${what} to the next`,
      largestStep(rows),
      TOLERANCE,
    ),
  ],
});

/** Linear growth of the whole means that one costs the same. @param {import('../run-scenario.mjs').Row[]} rows */
function largestStep(rows) {
  const costs = rows.map(({ figures }) => figures?.us ?? NaN);
  return Math.max(...costs.slice(1).map((cost, i) => cost / costs[i]));
}

/** @param {(size: number) => import('../measure/take-turns.mjs').Load} load */
const takingTurns = (load) => async (context, entrant) => {
  const figures = await takeTurns(context, { ...entrant, id: 'ours' }, load(entrant.size));
  return { ...figures, us: figures.clientUs + figures.redisUs };
};

const COLUMNS = [
  { title: 'locks/s', of: ({ perSecond }) => whole(perSecond) },
  { title: 'Redis + Node CPU µs for a lock', of: ({ us }) => count(us) },
  { title: 'commands', of: ({ commands }) => count(commands) },
];

export const waiters = {
  ...growth(
    'scale-waiters',
    'callers of one key',
    [1, 10, 100, 1000, 10_000],
    takingTurns((callers) => ({ processes: 1, callers, keys: 'one' })),
  ),
  columns: COLUMNS,
};

export const keys = {
  ...growth(
    'scale-keys',
    'keys in use at once',
    [1, 10, 100, 1000],
    takingTurns((callers) => ({ processes: 1, callers, keys: 'each' })),
  ),
  columns: COLUMNS,
};

export const processes = {
  ...growth(
    'scale-processes',
    'processes on one key',
    [1, 2, 4, 8],
    takingTurns((processes) => ({ processes, callers: 10, keys: 'one', workMs: 1 })),
  ),
  columns: COLUMNS,
};

export const held = {
  ...growth('scale-held', 'locks held', [100, 1000, 10_000], async (context, entrant) => {
    const figures = await holdLocks(context, { ...entrant, id: 'ours' }, entrant.size, HOLD_MS);
    const { clientShare, redisShare } = figures;
    return { ...figures, us: ((clientShare + redisShare) * 1e6) / entrant.size };
  }),
  columns: [
    { title: 'Redis + Node CPU µs/s for a lock', of: ({ us }) => count(us) },
    { title: 'commands/s', of: ({ perSecond }) => count(perSecond) },
    { title: 'timers added', of: ({ timers }) => whole(timers) },
  ],
};
