export { FenceMemory, type Fence } from './fence.js';
export { CommitRefusedError } from './commit-refused.error.js';
export { StaleTokenError } from './stale-token.error.js';
export type { SqlAnswer, SqlDialect, SqlQuery, SqlRow } from './sql-query.js';
export {
  fencedRedis,
  type FencedRedis,
  type FencedRedisOptions,
  type RedisWord,
  type ScriptingClient,
} from './fenced-redis.js';
export { heldUntilCommit, type HeldUntilCommitOptions } from './held-until-commit.js';
export { fencingHeaders } from './fencing-headers.js';
export { ProcessFences } from './process-fences.js';
export { CurrentFence, Fenced, FencedGuard, type FencedKeys, type FencedRequest } from './fenced.guard.js';
