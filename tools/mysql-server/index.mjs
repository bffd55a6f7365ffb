export { findMysqlServer } from './find-mysql-server.mjs';
export { startMysqlServer } from './start-mysql-server.mjs';
