// Run once, and remember the result: docs/recipes/once.md
export { OnceModule, type OnceModuleOptions } from './once.module.js';
export { Once, type OnceHandlerOptions, OnceInterceptor } from './once.decorator.js';
export {
  type OnceAttempt,
  type OnceOptions,
  type OnceOutcome,
  type OnceSerializer,
  OnceService,
  type OnceSettings,
} from './once.service.js';
export { OnceError, type OnceErrorCode, OnceErrorFilter } from './once.error.js';
export { memoryResults, type MemoryResultsOptions, type ResultStore, type StoredResult } from './results.js';
export { redisResults } from './redis-results.js';
export { sqlResults, type SqlResults, type SqlResultsOptions } from './sql-results.js';
