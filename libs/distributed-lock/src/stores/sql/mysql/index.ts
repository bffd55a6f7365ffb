export { lockTableSql } from '../lock-table.js';
export { mysqlStore, type MysqlStoreOptions } from './mysql.store.js';
export type { MysqlTarget } from './mysql.target.js';
