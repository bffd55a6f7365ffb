export { lockTableSql } from '../sql/lock-table.js';
export { mysqlStore, type MysqlStoreOptions } from './store.js';
export type { MysqlTarget } from './target.js';
