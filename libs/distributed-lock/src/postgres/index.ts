export { lockTableSql } from '../sql/lock-table.js';
export { postgresStore, type PostgresStoreOptions } from './store.js';
export type {
  Listen,
  PGliteDatabase,
  PostgresConfig,
  PostgresHandle,
  PostgresPool,
  PostgresTarget,
} from './target.js';
