import { FLOOR, OURS, QUEUE } from '../../contestants/index.mjs';
import { takeTurns } from '../measure/take-turns.mjs';
import { count, whole } from '../report/format.mjs';
import { atMost, noLimit } from '../report/targets.mjs';
import { holdLocks } from './hold.mjs';

/** The largest allowed growth of the cost of one lock between two sizes: noise, and caches that fill. */
const TOLERANCE = 1.5;
const HOLD_MS = 11_000;

/** @param {import('../../contestants/index.mjs').Entrant} entrant @param {string} id @param {string} name @param {number[]} sizes */
const inSizes = (entrant, id, name, sizes) =>
  sizes.map((size) => ({ ...entrant, id: `${id}-${size}`, name: `${whole(size)} ${name}`, size }));

/**
 * @param {string} id @param {string} what @param {number[]} sizes
 * @param {{ floor?: import('../../contestants/index.mjs').Entrant, judgedFrom?: number, note?: string, hasLimit?: boolean }} [options] the
 * floor shows the part of a step that is the machine's (caches, collector); the first `judgedFrom` steps are shown but not judged
 */
const growth = (id, what, sizes, measure, { floor, judgedFrom = 0, note, hasLimit = true } = {}) => ({
  note,
  id,
  title: `How the cost grows with ${what}`,
  entrants: () => [
    ...inSizes(OURS, 'ours', what, sizes),
    ...(floor ? inSizes(floor, floor.id, `${what} (${floor.name})`, sizes) : []),
  ],
  rounds: 1,
  measure,
  lines: what,
  targets: ({ rows }) => {
    const steps = stepsOf(rows, 'ours').slice(judgedFrom);
    const judge = hasLimit ? atMost : noLimit;
    const largest = `largest step of the cost of one, from one number of ${what} to the next`;
    if (!floor) return [judge(largest, Math.max(...steps), TOLERANCE)];
    const common = stepsOf(rows, floor.id).slice(judgedFrom);
    const own = steps.map((step, i) => step / Math.max(1, common[i]));
    return [
      judge(`${largest}, beyond the step of the floor`, Math.max(...own), TOLERANCE),
      noLimit(largest, Math.max(...steps)),
    ];
  },
});

/** The whole grows linearly when the cost of one lock stays the same. @param {import('../run-scenario.mjs').Row[]} rows @param {string} id */
function stepsOf(rows, id) {
  const costs = rows.filter((row) => row.id.startsWith(`${id}-`)).map(({ figures }) => figures?.us ?? NaN);
  return costs.slice(1).map((cost, i) => cost / costs[i]);
}

/** @param {(size: number) => import('../measure/take-turns.mjs').Load} load */
const takingTurns = (load) => async (context, entrant) => {
  const id = entrant.id.split('-')[0];
  const figures = await takeTurns(context, { ...entrant, id }, load(entrant.size));
  return { ...figures, us: figures.clientUs + figures.serverUs };
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
    { floor: QUEUE },
  ),
  columns: COLUMNS,
};

export const keys = {
  ...growth(
    'scale-keys',
    'keys in use at once',
    [1, 10, 100, 1000],
    takingTurns((callers) => ({ processes: 1, callers, keys: 'each' })),
    {
      floor: FLOOR,
      // The step to a thousand depends on the collector and on the run.
      hasLimit: false,
      note: "A thousand requests in flight do not fit into V8's young generation. The [recipe](../../../docs/recipes/limits.md#thousands-of-locks-at-once) makes it larger.",
    },
  ),
  columns: COLUMNS,
};

export const processes = {
  ...growth(
    'scale-processes',
    'processes on one key',
    [1, 2, 4, 8],
    takingTurns((processes) => ({ processes, callers: 10, keys: 'one', workMs: 1 })),
    {
      judgedFrom: 1,
      note: 'A single process has no remote hand-off, so the step from one to two is not judged.',
    },
  ),
  columns: COLUMNS,
};

export const held = {
  ...growth('scale-held', 'locks held', [100, 1000, 10_000], async (context, entrant) => {
    const figures = await holdLocks(context, { ...entrant, id: 'ours' }, entrant.size, HOLD_MS);
    const { clientShare, serverShare } = figures;
    return { ...figures, us: ((clientShare + serverShare) * 1e6) / entrant.size };
  }),
  columns: [
    { title: 'Redis + Node CPU µs/s for a lock', of: ({ us }) => count(us) },
    { title: 'commands/s', of: ({ perSecond }) => count(perSecond) },
    { title: 'timers added', of: ({ timers }) => whole(timers) },
  ],
};
