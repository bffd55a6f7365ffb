import { OURS, peers } from '../../contestants/index.mjs';
import { sentBetween } from '../measure/census.mjs';
import { withWorkers } from '../measure/worker-process.mjs';
import { bytes, count, whole } from '../report/format.mjs';
import { atMost } from '../report/targets.mjs';

const LOCKS = 10_000;
/** Each lock is renewed once in that time: a third of the lease of 30 s. */
const WATCH_MS = 10_000;
/** The peers that keep a lock alive by themselves. */
const RENEWING = ['redis-semaphore', 'redlock', 'node-redisson', 'redisson'];

/** The cost of holding locks for long. */
export const hold = {
  id: 'hold',
  title: `${LOCKS.toLocaleString('en').replace(',', ' ')} locks held`,
  note: `Measured over ${WATCH_MS / 1000} s, in which our watchdog renews each lock once. Only libraries that renew by themselves take part.`,
  entrants: () => [OURS, ...peers().filter(({ id }) => RENEWING.includes(id))],
  columns: [
    { title: 'client, % of a core', of: ({ clientShare }) => count(clientShare * 100) },
    { title: 'Redis, % of a core', of: ({ serverShare }) => count(serverShare * 100) },
    { title: 'timers added', of: ({ timers }) => whole(timers) },
    { title: 'heap for each lock', of: ({ bytesEach }) => bytes(bytesEach) },
    { title: 'commands/s', of: ({ perSecond }) => count(perSecond) },
  ],
  rounds: 1,
  measure: (context, entrant) => holdLocks(context, entrant, LOCKS, WATCH_MS),
  targets: ({ ours }) => [
    atMost('timers added', ours.timers, 1),
    atMost('client, % of a core', ours.clientShare * 100, 5),
    atMost('heap for each lock, bytes', ours.bytesEach, 2048),
    atMost('commands/s: renewals are batched', ours.perSecond, LOCKS / 100),
  ],
};

/** @param {import('../stores/store.d.mts').Context} context @param {import('../../contestants/index.mjs').Entrant} entrant @param {number} locks @param {number} watchMs @param {number} [atOnce] how many are asked for at once */
export async function holdLocks(context, entrant, locks, watchMs, atOnce) {
  const { observer, url } = context;
  const shares = await context.sharesOf(entrant);
  await observer.clear();
  return withWorkers({ command: entrant.command, count: 1, url }, async ([worker]) => {
    await worker.ask('turns', { callers: 1, keys: ['warm'], ms: 200, workMs: 0, graceMs: 200 });
    // A JVM cannot report its timers.
    const { bytesEach, timers = NaN } = await worker.ask('hold', { count: locks, atOnce, prefix: 'held:' });
    const before = await observer.readWhenQuiet();
    const { cpuUs, ms } = await worker.ask('idle', { ms: watchMs });
    const after = await observer.read();
    return {
      clientShare: cpuUs / 1000 / ms,
      serverShare: (after.cpuUs - before.cpuUs) / 1000 / ms,
      timers,
      bytesEach,
      perSecond: (sentBetween(before.calls, after.calls, shares).count * 1000) / ms,
    };
  });
}
