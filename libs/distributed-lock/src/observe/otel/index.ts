export { measureLocks, type LockMetricsOptions } from './lock.metrics.js';
export { LockMetricsModule, type LockMetricsModuleOptions } from './lock-metrics.module.js';
