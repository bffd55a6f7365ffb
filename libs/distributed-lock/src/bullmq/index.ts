// One job at a time for each key, without holding a worker: docs/recipes/workers.md
export { LockedJob, type LockedJobOptions } from './locked-job.decorator.js';
