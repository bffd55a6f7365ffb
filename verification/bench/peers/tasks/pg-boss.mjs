import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { PgBoss } from 'pg-boss';
import { nameWork, runNamed } from './works.mjs';

const HEARTBEAT_SECONDS = 10;

/** The shortest times that it takes: it polls every 0.5 s, a heartbeat may be missing for 10 s, which is looked for once a second. */
const OPTIONS = { superviseIntervalSeconds: 1, monitorIntervalSeconds: 1 };
const WORKER = { pollingIntervalSeconds: 0.5, localConcurrency: 4 };

/** @type {import('../../compare/tasks/systems/system.d.mts').System} */
export const system = {
  server: 'postgres',
  leaseMs: HEARTBEAT_SECONDS * 1000,
  hasKeys: true,
  hasLimits: true,
  async open(url, onUnknown) {
    const boss = new PgBoss({ connectionString: url, ...OPTIONS });
    boss.on('error', () => {});
    await boss.start();
    const handle = ([job]) => runNamed(job.data.work, { job }, onUnknown);
    const work = async (queue, options) => {
      await boss.createQueue(queue, { heartbeatSeconds: HEARTBEAT_SECONDS, ...options.queue });
      await boss.work(queue, { ...WORKER, ...options.worker }, handle);
    };
    await work('in-order', { queue: { policy: 'key_strict_fifo' } });
    await work('three-at-a-time', { worker: { groupConcurrency: 3 } });
    let active;
    async function send(queue, run, options) {
      const data = { work: nameWork(run) };
      const id = (await boss.send(queue, data, options)) ?? options.id;
      for (; ; await sleep(50)) {
        const [job] = await boss.findJobs(queue, { id });
        if (job?.state === 'completed') return job.output?.value ?? job.output;
      }
    }
    return {
      run(key, run, { limit, onLost } = {}) {
        const handled = async ({ job }) => {
          active = job;
          if (onLost) job.signal.addEventListener('abort', onLost);
          return run({ token: job.id });
        };
        return limit
          ? send('three-at-a-time', handled, { group: { id: key } })
          : send('in-order', handled, { singletonKey: key });
      },
      runOnce: (key, run) => send('in-order', run, { singletonKey: key, id: uuidOf(key) }),
      takeAway: () => boss.cancel(active.name, active.id),
    };
  },
};

/** A job's id must be a UUID. */
function uuidOf(text) {
  const hex = createHash('sha256').update(text).digest('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join(
    '-',
  );
}
