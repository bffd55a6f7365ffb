export { findPostgresServer } from './find-postgres-server.mjs';
export { startPostgresServer } from './start-postgres-server.mjs';
export { startStandby } from './start-standby.mjs';
