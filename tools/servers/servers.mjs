import { findEtcdServer } from '../etcd-server/index.mjs';
import { findGalera } from '../galera-cluster/index.mjs';
import { findMariadbServer } from '../mariadb-server/index.mjs';
import { findMysqlServer } from '../mysql-server/index.mjs';
import { findPgbouncer } from '../pgbouncer/index.mjs';
import { findPostgresServer } from '../postgres-server/index.mjs';
import { findZookeeperServer } from '../zookeeper-server/index.mjs';

const SERVERS = {
  postgres: findPostgresServer,
  pgbouncer: findPgbouncer,
  mariadb: findMariadbServer,
  galera: findGalera,
  mysql: findMysqlServer,
  etcd: findEtcdServer,
  zookeeper: findZookeeperServer,
};

/** @type {import('./index.d.mts').whyMissing} */
export function whyMissing(name, options) {
  try {
    SERVERS[name](options);
    return undefined;
  } catch (error) {
    return error.message;
  }
}

/** @type {import('./index.d.mts').SERVER_NAMES} */
export const SERVER_NAMES = Object.keys(SERVERS);
