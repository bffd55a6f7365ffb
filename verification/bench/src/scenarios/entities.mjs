import { OURS, patientRedlock } from '../../contestants/index.mjs';
import { takeTurns } from '../measure/take-turns.mjs';
import { count, ms, whole } from '../report/format.mjs';
import { noLimit } from '../report/targets.mjs';

/**
 * As published: 11 ms for an operation that waits for nobody, and 64 workers. How many entities they share is not; with three, the times of a
 * lock that polls come near those that were.
 */
const WORK_MS = 11;
const WORKERS = 64;
const ENTITIES = 3;
const PROCESSES = 4;
/** A caller may wait for seconds. */
const TIMES = 2;

const operations = ({ callers, processes }) => ({
  processes,
  callers,
  keys: ENTITIES,
  workMs: WORK_MS,
  times: TIMES,
});
const ALONE = operations({ callers: 1, processes: 1 });
const TOGETHER = operations({ callers: WORKERS / PROCESSES, processes: PROCESSES });

/** The published workload of OpenCTI, with a lock that polls as the platform's does, and with ours. */
export const entities = {
  id: 'entities',
  title: `${WORKERS} workers write ${ENTITIES} shared entities`,
  note: `The workload of [OpenCTI issue 17341](https://github.com/OpenCTI-Platform/opencti/issues/17341): one write takes ${WORK_MS} ms alone; among ${WORKERS} workers, with a lock that polls, 449 ms on average and 1.78 s at the 95th percentile were measured there. Here a write is a timer of ${WORK_MS} ms under the lock of one of ${ENTITIES} entities, chosen at random, in ${PROCESSES} processes. Redlock has the settings of that platform: a try each 250 ms, up to 100. Times are from the call to the end of the write.`,
  entrants: () => [
    { ...OURS, id: 'ours-alone', name: 'ours, one worker alone', load: ALONE },
    { ...OURS, load: TOGETHER },
    { ...patientRedlock(), load: TOGETHER },
  ],
  columns: [
    { title: 'writes/s', of: ({ perSecond }) => whole(perSecond) },
    { title: 'mean', of: ({ tookMeanMs }) => ms(tookMeanMs) },
    { title: 'p50', of: ({ tookP50Ms }) => ms(tookP50Ms) },
    { title: 'p95', of: ({ tookP95Ms }) => ms(tookP95Ms) },
    { title: 'p99', of: ({ tookP99Ms }) => ms(tookP99Ms) },
    { title: 'p99.9', of: ({ tookP999Ms }) => ms(tookP999Ms) },
    { title: 'commands', of: ({ commands }) => count(commands) },
    { title: 'failed', of: ({ failures }) => whole(failures) },
    { title: 'still waiting', of: ({ unfinished }) => whole(unfinished) },
  ],
  plot: { title: 'Longest of 95 in 100 writes', of: ({ tookP95Ms }) => tookP95Ms, show: ms },
  rounds: 3,
  measure: (context, entrant) => takeTurns(context, entrant, entrant.load),
  targets: ({ ours, others }) => [
    noLimit('p95, share of that of redlock', ours.tookP95Ms / (others[0]?.tookP95Ms ?? NaN)),
  ],
};
