export { measureLocks, type LockMetricsOptions } from './lock.metrics.js';
export { LockMetricsModule, type LockMetricsModuleOptions } from './modules.js';
export { traceLocks, type LockTracingOptions } from './lock.tracing.js';
export { LockTracingModule, type LockTracingModuleOptions } from './modules.js';
