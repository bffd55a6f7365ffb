import { groupBy } from '../../group-by.mjs';
import { recoveries } from './liveness.mjs';

/** Fewer say nothing about a median. */
const ENOUGH = 3;

/** One recovery may be slow on a bad day. The median recovery after a fault keeps its goal. */
export function goals(trial) {
  const recoveredMs = recoveries(trial);
  const told = trial.faults.map(({ kind, goalMs }, i) => ({ kind, goalMs, ms: recoveredMs[i] }));
  const judged = told.filter(({ goalMs }) => goalMs !== undefined);
  return [...groupBy(judged, ({ kind }) => kind)].flatMap(([kind, list]) => {
    if (list.length < ENOUGH) return [];
    const median = list.map(({ ms }) => ms).sort((a, b) => a - b)[Math.floor(list.length / 2)];
    const { goalMs } = list[0];
    return median > goalMs
      ? [
          `after ${kind} keys lay idle for ${median.toFixed(0)} ms, as the median of ${list.length}; ${goalMs} ms is the goal`,
        ]
      : [];
  });
}
