import { Queue, QueueEvents, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { nameWork, runNamed } from './works.mjs';

const QUEUE = 'tasks';
const LEASE_MS = 3000;

/** @type {import('../../compare/tasks/systems/system.d.mts').System} */
export const system = {
  server: 'redis',
  leaseMs: LEASE_MS,
  // Groups are part of BullMQ Pro.
  hasKeys: false,
  hasLimits: false,
  async open(url, onUnknown) {
    const connection = { url, maxRetriesPerRequest: null };
    const queue = new Queue(QUEUE, { connection });
    const events = new QueueEvents(QUEUE, { connection });
    const losses = new Map();
    const worker = new Worker(
      QUEUE,
      (job, token) => runNamed(job.data.work, { token, job }, onUnknown) ?? null,
      { connection, concurrency: 10, lockDuration: LEASE_MS, stalledInterval: LEASE_MS },
    );
    worker.on('lockRenewalFailed', (ids) => ids.forEach((id) => losses.get(id)?.()));
    worker.on('error', () => {});
    await Promise.all([events.waitUntilReady(), worker.waitUntilReady()]);
    const redis = new Redis(url);
    const add = async (key, work, jobId) =>
      (await queue.add(key, { work: nameWork(work) }, { jobId })).waitUntilFinished(events);
    return {
      run: (key, work, { onLost } = {}) =>
        add(key, ({ token, job }) => {
          losses.set(job.id, onLost);
          return work({ token });
        }),
      runOnce: (key, work) => add(key, work, key),
      takeAway: async () => redis.del(...(await redis.keys('*:lock'))),
    };
  },
};
