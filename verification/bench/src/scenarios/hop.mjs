import { FLOOR, OURS, peers } from '../../contestants/index.mjs';
import { Histogram } from '../measure/histogram.mjs';
import { limitOf, warmUp } from '../measure/take-turns.mjs';
import { withWorkers } from '../measure/worker-process.mjs';
import { median } from '../measure/statistics.mjs';
import { ms, whole } from '../report/format.mjs';
import { atMost } from '../report/targets.mjs';

/** Long enough for the other process to have joined the queue again. */
const HOLD_MS = 3;

export const TWICE_IN_A_ROW = 'It is no hand-off when one process takes the lock twice in a row.';

/** Two processes take turns at one key: from the release in one to the work running in the other. */
export const hop = {
  id: 'hop',
  title: 'Hand-off between two processes',
  note: `The floor is one bare PUBLISH in one process and its message in the other. ${TWICE_IN_A_ROW}`,
  entrants: () => [{ ...FLOOR, name: 'floor: one PUBLISH' }, OURS, ...peers()],
  columns: [
    { title: 'hand-offs/s', of: ({ perSecond }) => whole(perSecond) },
    { title: 'p50', of: ({ p50Ms }) => ms(p50Ms) },
    { title: 'p99', of: ({ p99Ms }) => ms(p99Ms) },
    { title: 'max', of: ({ maxMs }) => ms(maxMs) },
    { title: 'failed', of: ({ failures }) => whole(failures) },
  ],
  rounds: 1,
  plot: { title: 'Hand-offs per second', of: ({ perSecond }) => perSecond, show: whole },
  measure: (context, entrant) => (entrant.id === 'floor' ? bareHops : handOffs)(context, entrant),
  targets: ({ floor, ours }) => [atMost('median, times one PUBLISH', ours.p50Ms / floor.p50Ms, 2)],
};

async function bareHops({ observer, url, ms }, { command }) {
  await observer.clear();
  return withWorkers({ command, count: 2, url }, async ([from, to]) => {
    const channel = 'bare-hop';
    const [{ hopsMs }] = await Promise.all([
      to.ask('listen', { url, channel, ms: ms + 200 }),
      from.ask('publish', { url, channel, ms, everyMs: HOLD_MS }),
    ]);
    return figures(hopsMs, ms, 0);
  });
}

/**
 * How long a lock's first request takes where nobody wants the lock, at the pace of hand-offs.
 *
 * @param {import('../stores/store.d.mts').Context} context @param {import('../../contestants/index.mjs').Entrant} entrant
 */
export async function bareRequests(context, entrant) {
  const { observer, url, ms } = context;
  await observer.clear();
  return withWorkers({ command: entrant.command, count: 1, url }, async ([worker]) => {
    const turns = (ms, workMs) =>
      worker.ask('turns', { callers: 1, keys: ['bare'], ms, workMs, graceMs: 1000 });
    await warmUp(context, { entrant, workers: [worker] }, async (sliceMs) => [await turns(sliceMs, 0)]);
    const { waits, failures } = await turns(ms, HOLD_MS);
    const took = new Histogram().merge(waits);
    return {
      perSecond: NaN,
      p50Ms: took.quantile(0.5),
      p99Ms: took.quantile(0.99),
      maxMs: took.maxMs,
      failures: Object.values(failures).reduce((sum, count) => sum + count, 0),
    };
  });
}

/** @param {import('../stores/store.d.mts').Context} context @param {import('../../contestants/index.mjs').Entrant} entrant */
export async function handOffs(context, entrant) {
  const { observer, url, ms } = context;
  const { command } = entrant;
  await observer.clear();
  return withWorkers({ command, count: 2, url }, async (workers) => {
    const run = (ms) => {
      const asked = workers.map((worker) => worker.ask('hops', { key: 'hop', ms, holdMs: HOLD_MS }));
      return Promise.all(asked);
    };
    // Hand-offs are few in a second, so the compilers are warmed up by uncontended locks.
    await warmUp(context, { entrant, workers }, (sliceMs, graceMs) => {
      const task = (p) => ({ callers: 1, keys: [`warm:${p}`], ms: sliceMs, workMs: 0, graceMs });
      return Promise.all(workers.map((worker, p) => worker.ask('turns', task(p))));
    });
    await run(Math.min(ms, limitOf(entrant, context)));
    const answers = await run(ms);
    return figures(
      hopsBetween(answers),
      ms,
      answers.reduce((sum, { failed, strayErrors }) => sum + failed + strayErrors, 0),
    );
  });
}

/** @param {{ stays: [number, number][] }[]} answers @returns {number[]} ms from each leaving to the other's entering */
function hopsBetween(answers) {
  const stays = answers
    .flatMap(({ stays }, process) => stays.map(([from, to]) => ({ process, from, to })))
    .sort((a, b) => a.from - b.from);
  return stays.flatMap((stay, i) => {
    const before = stays[i - 1];
    return before && before.process !== stay.process ? [stay.from - before.to] : [];
  });
}

/** @param {number[]} hopsMs */
function figures(hopsMs, ms, failures) {
  const sorted = hopsMs.toSorted((a, b) => a - b);
  return {
    perSecond: (sorted.length * 1000) / ms,
    p50Ms: median(sorted),
    p99Ms: sorted[Math.floor(sorted.length * 0.99)] ?? NaN,
    maxMs: sorted.at(-1) ?? NaN,
    failures,
  };
}
