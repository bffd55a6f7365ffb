export { findMariadbServer, versionOfMariadb } from './find-mariadb-server.mjs';
export { startMariadbServer } from './start-mariadb-server.mjs';
