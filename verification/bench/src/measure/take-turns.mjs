import { sentBetween } from './census.mjs';
import { Histogram } from './histogram.mjs';
import { runUntil } from './run-until.mjs';
import { jain } from './statistics.mjs';
import { withWorkers } from './worker-process.mjs';

/**
 * Processes are warmed up until the just-in-time compiler of each has seen so many locks, for a limited time. Where all
 * ask for one key they get few locks, so they are warmed up by keys of their own before.
 */
const WARM = {
  locks: 120_000,
  sliceMs: 250,
  graceMs: 1500,
  longestMs: 5000,
  commonMs: 500,
};
/** The warm-up before a run that measures nothing that counts, in runs. A JVM is slow at first. */
const RUNS = { node: 1, java: 5 };

/** How long callers may finish their last lock after the time is up. */
const GRACE_MS = 500;

/**
 * @typedef {object} Load
 * @property {number} processes
 * @property {number} callers in each process
 * @property {'one' | 'each'} keys one key for all callers, or a key for each
 * @property {number} [workMs] how long a caller stays in the critical section; default 0
 */

/**
 * One run of one contestant in fresh processes.
 *
 * @param {import('../stores/store.d.mts').Context} context @param {import('../../contestants/index.mjs').Entrant} entrant
 * @param {Load} load @param {string} [url] default: the server's own
 */
export async function takeTurns(context, entrant, load, url = context.url) {
  const { observer, ms } = context;
  const { processes, callers, keys, workMs = 0 } = load;
  const shares = await context.sharesOf(entrant);
  await observer.clear();
  return withWorkers({ command: entrant.command, count: processes, url }, async (workers) => {
    const own = (p) => Array.from({ length: callers }, (_, i) => `key:${p}:${i}`);
    const run = (keysOf, ms, graceMs) => {
      const task = (p) => ({ callers, keys: keysOf(p), ms, workMs, graceMs });
      return Promise.all(workers.map((worker, p) => worker.ask('turns', task(p))));
    };
    const wanted = keys === 'one' ? () => ['key'] : own;
    await warmUp({ entrant, workers, ms }, (sliceMs, graceMs) => run(own, sliceMs, graceMs));
    if (keys === 'one') await run(wanted, Math.min(WARM.commonMs, limitOf(entrant, ms)), WARM.graceMs);
    const before = await observer.readWhenQuiet();
    const answers = await run(wanted, ms, GRACE_MS);
    const after = await observer.readWhenQuiet();
    return figures(answers, after.cpuUs - before.cpuUs, sentBetween(before.calls, after.calls, shares));
  });
}

/**
 * Warms the processes of a contestant up, for a shorter time before a short run.
 *
 * @param {{ entrant: import('../../contestants/index.mjs').Entrant, workers: readonly unknown[], ms: number }} measured
 *   the processes of a contestant, and how long their run will take
 * @param {(ms: number, graceMs: number) => Promise<{ acquired: number }[]>} run
 */
export function warmUp({ entrant, workers, ms }, run) {
  const { leastMs = 0, longestMs } = { longestMs: WARM.longestMs, ...entrant.warmUp };
  const limitMs = limitOf(entrant, ms);
  const enough = {
    locks: WARM.locks * workers.length,
    leastMs: Math.min(leastMs, limitMs),
    longestMs: Math.min(longestMs, limitMs),
  };
  return runUntil(() => run(Math.min(WARM.sliceMs, limitMs), WARM.graceMs), enough);
}

/** Runs of less than a second measure nothing that counts. @param {import('../../contestants/index.mjs').Entrant} entrant @param {number} ms */
function limitOf(entrant, ms) {
  return ms < 1000 ? ms * (entrant.warmUp ? RUNS.java : RUNS.node) : Infinity;
}

/** @param {readonly number[]} counts */
const sumOf = (counts) => counts.reduce((a, b) => a + b, 0);

/** @param {any[]} answers of src/worker/turns.mjs, one for each process */
function figures(answers, serverUs, commands) {
  const sum = (pick) => answers.reduce((total, answer) => total + pick(answer), 0);
  const waits = answers.reduce((all, answer) => all.merge(answer.waits), new Histogram());
  const perCaller = answers.flatMap((answer) => answer.perCaller);
  // Without any lock there is no cost of one.
  const acquired = sum((answer) => answer.acquired) || NaN;
  const inTime = sumOf(perCaller);
  const perProcess = answers.map((answer) => sumOf(answer.perCaller));
  const { ms } = answers[0];
  return {
    perSecond: (inTime * 1000) / ms,
    p50Ms: waits.quantile(0.5),
    p99Ms: waits.quantile(0.99),
    maxMs: waits.maxMs,
    jain: jain(perCaller),
    processJain: jain(perProcess),
    fewest: (Math.min(...perProcess) * perProcess.length) / inTime,
    commands: commands.count / acquired,
    exact: commands.exact,
    serverUs: serverUs / acquired,
    clientUs: sum((answer) => answer.cpuUs) / acquired,
    inUse: sum((answer) => answer.usedMs) / ms,
    failures: sum((answer) => sumOf(Object.values(answer.failures)) + answer.strayErrors),
    unfinished: sum((answer) => answer.unfinished),
  };
}
