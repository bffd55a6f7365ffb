export { lockTableSql } from '../lock-table.js';
export { postgresStore, type PostgresStoreOptions } from './postgres.store.js';
export type {
  Listen,
  PGliteDatabase,
  PostgresConfig,
  PostgresHandle,
  PostgresPool,
  PostgresTarget,
} from './postgres.target.js';
