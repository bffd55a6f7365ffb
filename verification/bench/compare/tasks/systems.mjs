/** What runs for the table by task, in the order of its columns. Each module exports its `system`. */
export const SYSTEMS = {
  'this library': () => import('./systems/ours.mjs'),
  BullMQ: () => import('../../peers/tasks/bullmq.mjs'),
  'pg-boss': () => import('../../peers/tasks/pg-boss.mjs'),
  '`pg_advisory_lock`': () => import('./systems/advisory-lock.mjs'),
  '`SET NX`': () => import('./systems/set-nx.mjs'),
};
