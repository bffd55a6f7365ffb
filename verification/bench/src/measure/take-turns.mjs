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
  commonMs: 500,
};
/** How much longer a warm-up may be. A JVM is slow at first. */
const TIMES = { node: 1, java: 4 };

/** How long callers may finish their last lock after the time is up. */
const GRACE_MS = 500;

/**
 * @typedef {object} Load
 * @property {number} processes
 * @property {number} callers in each process
 * @property {'one' | 'each' | 'new' | number} keys one key for all callers, a key for each, one that nobody has had before for each
 *   lock, or any of so many at a time
 * @property {number} [workMs] how long a caller stays in the critical section; default 0
 * @property {number} [times] a turn is so many times as long as others; default 1
 */

/**
 * One run of one contestant in fresh processes.
 *
 * @param {import('../stores/store.d.mts').Context} context @param {import('../../contestants/index.mjs').Entrant} entrant
 * @param {Load} load @param {string} [url] default: the server's own
 */
export async function takeTurns(context, entrant, load, url = context.url) {
  const { observer } = context;
  const { processes, callers, keys, workMs = 0, times = 1 } = load;
  const ms = context.ms * times;
  const shares = await context.sharesOf(entrant);
  await observer.clear();
  return withWorkers({ command: entrant.command, count: processes, url }, async (workers) => {
    const own = (p) => ({ keys: Array.from({ length: callers }, (_, i) => `key:${p}:${i}`) });
    const run = (keysOf, ms, graceMs) => {
      const task = (p) => ({ callers, ...keysOf(p), ms, workMs, graceMs });
      return Promise.all(workers.map((worker, p) => worker.ask('turns', task(p))));
    };
    const wanted = wantedKeys(keys) ?? own;
    await warmUp(context, { entrant, workers }, (sliceMs, graceMs) => run(own, sliceMs, graceMs));
    if (wanted !== own) await run(wanted, Math.min(WARM.commonMs, limitOf(entrant, context)), WARM.graceMs);
    const before = await observer.readWhenQuiet();
    const answers = await run(wanted, ms, GRACE_MS);
    const after = await observer.readWhenQuiet();
    return figures(answers, after.cpuUs - before.cpuUs, sentBetween(before.calls, after.calls, shares));
  });
}

/** @param {Load['keys']} keys @returns {((process: number) => { keys: string[], choice?: string }) | undefined} */
function wantedKeys(keys) {
  if (keys === 'one') return () => ({ keys: ['key'] });
  if (keys === 'new') return (p) => ({ keys: [`new:${p}:${performance.now()}`], choice: 'new' });
  if (typeof keys !== 'number') return undefined;
  return () => ({ keys: Array.from({ length: keys }, (_, i) => `shared:${i}`), choice: 'any' });
}

/**
 * Warms the processes of a contestant up, for a shorter time before a short run.
 *
 * @param {Pick<import('../stores/store.d.mts').Context, 'ms' | 'warmUpMs'>} context
 * @param {{ entrant: import('../../contestants/index.mjs').Entrant, workers: readonly unknown[] }} measured
 * @param {(ms: number, graceMs: number) => Promise<{ acquired: number }[]>} run
 */
export function warmUp(context, { entrant, workers }, run) {
  const { leastMs = 0, longestMs } = { longestMs: Infinity, ...entrant.warmUp };
  const limitMs = limitOf(entrant, context);
  const enough = {
    locks: WARM.locks * workers.length,
    leastMs: Math.min(leastMs, limitMs),
    longestMs: Math.min(longestMs, limitMs),
  };
  return runUntil(() => run(Math.min(WARM.sliceMs, limitMs), WARM.graceMs), enough);
}

/**
 * The longest warm-up. Turns of less than a second measure nothing that counts.
 *
 * @param {import('../../contestants/index.mjs').Entrant} entrant
 * @param {Pick<import('../stores/store.d.mts').Context, 'ms' | 'warmUpMs'>} context
 */
export function limitOf(entrant, { ms, warmUpMs }) {
  return (ms < 1000 ? Math.min(ms, warmUpMs) : warmUpMs) * (entrant.warmUp ? TIMES.java : TIMES.node);
}

/** @param {readonly number[]} counts */
const sumOf = (counts) => counts.reduce((a, b) => a + b, 0);

/** @param {any[]} answers of src/worker/turns.mjs, one for each process */
function figures(answers, serverUs, commands) {
  const sum = (pick) => answers.reduce((total, answer) => total + pick(answer), 0);
  const waits = answers.reduce((all, answer) => all.merge(answer.waits), new Histogram());
  const took = answers.reduce((all, answer) => (answer.took ? all.merge(answer.took) : all), new Histogram());
  const perCaller = answers.flatMap((answer) => answer.perCaller);
  // Without any lock there is no cost of one.
  const acquired = sum((answer) => answer.acquired) || NaN;
  const inTime = sumOf(perCaller);
  const perProcess = answers.map((answer) => sumOf(answer.perCaller));
  const { ms } = answers[0];
  return {
    perSecond: (inTime * 1000) / ms,
    tookMeanMs: took.mean(),
    tookP50Ms: took.quantile(0.5),
    tookP95Ms: took.quantile(0.95),
    tookP99Ms: took.quantile(0.99),
    tookP999Ms: took.quantile(0.999),
    p50Ms: waits.quantile(0.5),
    p99Ms: waits.quantile(0.99),
    p999Ms: waits.quantile(0.999),
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
