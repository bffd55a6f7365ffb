import { groupBy } from './group-by.mjs';

/** The growth that is allowed over the least of the beginning, for chance: a quorum of three has seven sockets, or one. */
const LIMITS = { heapUsed: 8e6, sockets: 7, timers: 20, redisKeys: 20, rows: 20 };
/** Compared are the least values of the second fifth and of the last one: the first is the warm-up. */
const PARTS = 5;

/**
 * The growth between the beginning and the end of a long trial: heap, sockets and timers of each process that lived
 * through it, and keys in Redis or rows of the lock table.
 *
 * @param {readonly import('./index.d.mts').HistoryRecord[]} records
 * @returns {{ lines: string[], findings: string[] }}
 */
export function growth(records) {
  const groups = groupBy(
    records.filter(({ type }) => type === 'sample'),
    ({ who }) => who,
  );
  const first = Math.min(...[...groups.values()].map((list) => list[0].at));
  const last = Math.max(...[...groups.values()].map((list) => list.at(-1).at));
  const isWhole = (list) => list.at(-1).at - list[0].at > 0.9 * (last - first);
  const lines = [];
  const findings = [];
  for (const [who, list] of groups) {
    // Processes that were started on the way tell nothing about growth.
    if (!isWhole(list)) continue;
    for (const [what, limit] of Object.entries(LIMITS)) {
      if (list[0][what] === undefined) continue;
      const [before, after] = [part(list, 1), part(list, PARTS - 1)].map((some) => least(some, what));
      lines.push(`${who.padEnd(8)} ${what.padEnd(10)} ${shown(what, before)} → ${shown(what, after)}`);
      if (after > before + limit) findings.push(`${who}: ${what} grew from ${before} to ${after}`);
    }
  }
  return { lines, findings };
}

const part = (list, index) =>
  list.slice(Math.floor((index * list.length) / PARTS), Math.floor(((index + 1) * list.length) / PARTS));

const least = (list, what) => Math.min(...list.map((sample) => sample[what]));

const shown = (what, value) => (what === 'heapUsed' ? `${(value / 1e6).toFixed(1)} MB` : String(value));
