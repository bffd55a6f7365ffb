import { OURS } from '../../contestants/index.mjs';
import { sentBetween } from '../measure/census.mjs';
import { withWorkers } from '../measure/worker-process.mjs';
import { bytes, count, whole } from '../report/format.mjs';
import { atMost } from '../report/targets.mjs';

const WAITERS = 100_000;
const KEYS = 1000;
const WATCH_MS = 5000;
const WAIT_MS = 120_000;

/** The cost of waiting: one process holds all keys, and all callers of another process wait for them. */
export const crowd = {
  id: 'crowd',
  title: '100 000 waiters over 1 000 keys',
  note: 'Heap for each waiter does not include the bare promise that its caller waits for. A process rechecks a key once a second at most, however many callers wait.',
  entrants: () => [OURS],
  columns: [
    { title: 'heap for each waiter', of: ({ bytesEach }) => bytes(bytesEach) },
    { title: 'timers added', of: ({ timers }) => whole(timers) },
    { title: 'commands/s, all waiters', of: ({ perSecond }) => whole(perSecond) },
    { title: 'commands/s for each key', of: ({ perKey }) => count(perKey) },
    { title: 'Node, % of a core', of: ({ nodeShare }) => count(nodeShare * 100) },
  ],
  rounds: 1,
  measure: (context, entrant) => waitInCrowd(context, entrant, { waiters: WAITERS, keys: KEYS }),
  targets: ({ ours }) => [
    atMost('heap for each waiter beyond its promise, bytes', ours.bytesEach, 1024),
    // A little above one: a second is measured by timers.
    atMost('commands/s for each key, however many wait', ours.perKey, 1.05),
  ],
};

/**
 * @param {import('../stores/store.d.mts').Context} context @param {import('../../contestants/index.mjs').Entrant} entrant
 * @param {{ waiters: number, keys: number }} size
 */
export async function waitInCrowd(context, entrant, { waiters, keys }) {
  const { observer, url } = context;
  const shares = await context.sharesOf(entrant);
  const options = { waitMs: WAIT_MS };
  await observer.clear();
  return withWorkers({ command: entrant.command, count: 2, url, options }, async ([holder, waiter]) => {
    const prefix = 'crowd:';
    await holder.ask('hold', { count: keys, prefix });
    const { bytesEach, timers } = await waiter.ask('crowd', { count: waiters, keys, prefix });
    const before = await observer.read();
    const { cpuUs, ms } = await waiter.ask('idle', { ms: WATCH_MS });
    const after = await observer.read();
    const perSecond = (sentBetween(before.calls, after.calls, shares).count * 1000) / ms;
    return { bytesEach, timers, perSecond, perKey: perSecond / keys, nodeShare: cpuUs / 1000 / ms };
  });
}
