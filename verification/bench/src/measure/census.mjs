import { runUntil } from './run-until.mjs';
import { withWorkers } from './worker-process.mjs';

const CENSUS_MS = 300;
/** A process that is slow at first takes few locks in that time, too few to send each command once. */
const ENOUGH = { locks: 100, longestMs: 10_000 };

/**
 * Finds out which commands a contestant sends itself, and which only its scripts call.
 *
 * INFO commandstats counts both under one name, so a short contended run under MONITOR, which tells them apart, goes
 * before the measured ones. A name that comes from one side only is then counted exactly; for one that comes from both,
 * the share that clients had in the census is taken, and the figure is marked as an estimate.
 *
 * @param {import('./redis-observer.mjs').RedisObserver} observer @param {readonly string[]} command @param {string} url
 * @param {boolean} canWait
 * @returns {Promise<Map<string, number>>} the share of each command that clients sent, 0 to 1
 */
export async function census(observer, command, url, canWait) {
  const seen = new Map();
  const keys = canWait ? ['census'] : ['census:0', 'census:1'];
  await withWorkers({ command, count: canWait ? 2 : 1, url }, async (workers) => {
    // The commands of connecting are no part of a lock.
    await observer.readWhenQuiet();
    const stop = await observer.watch((name, byScript) => {
      const { all = 0, sent = 0 } = seen.get(name) ?? {};
      seen.set(name, { all: all + 1, sent: sent + (byScript ? 0 : 1) });
    });
    // Some commands, such as renewals, are only sent during longer work.
    const task = { callers: 2, keys, ms: CENSUS_MS, workMs: 1, graceMs: CENSUS_MS };
    await runUntil(() => Promise.all(workers.map((worker) => worker.ask('turns', task))), ENOUGH);
    stop();
  });
  await observer.clear();
  return new Map([...seen].map(([name, { all, sent }]) => [name, sent / all]));
}

/**
 * @param {Map<string, number>} before @param {Map<string, number>} after calls, as the server counts them
 * @param {Map<string, number>} shares a command that the census has not seen counts as sent by a client
 * @returns {{ count: number, exact: boolean }} commands that clients sent in between
 */
export function sentBetween(before, after, shares) {
  let count = 0;
  let exact = true;
  for (const [name, calls] of after) {
    const more = calls - (before.get(name) ?? 0);
    const share = shares.get(name) ?? 1;
    count += more * share;
    if (more > 0 && share > 0 && share < 1) exact = false;
  }
  return { count, exact };
}
