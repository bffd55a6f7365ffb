export { findPgbouncer } from './find-pgbouncer.mjs';
export { startPgbouncer } from './start-pgbouncer.mjs';
