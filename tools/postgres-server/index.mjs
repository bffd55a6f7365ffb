export { findPostgresServer } from './find-postgres-server.mjs';
export { startPostgresServer } from './start-postgres-server.mjs';
