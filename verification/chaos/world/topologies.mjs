import { openCluster } from './cluster.mjs';
import { openEtcd } from './etcd.mjs';
import { openMariadb, openMysql } from './mysql.mjs';
import { openPgbouncer, openPostgres, openStandby } from './postgres.mjs';
import { openQuorum } from './quorum.mjs';
import { openSentinel } from './sentinel.mjs';
import { openSingle } from './single.mjs';
import { openZookeeper } from './zookeeper.mjs';

/** The servers of each store. The first topology is for kinds that name none. */
const TOPOLOGIES = {
  redis: {
    single: openSingle,
    sentinel: openSentinel,
    cluster: openCluster,
    quorum: openQuorum,
    none: openNone,
  },
  postgres: { single: openPostgres, standby: openStandby, pgbouncer: openPgbouncer },
  mysql: { single: openMysql },
  mariadb: { single: openMariadb },
  etcd: { cluster: openEtcd },
  zookeeper: { cluster: openZookeeper },
};

/**
 * Starts the servers of a trial.
 *
 * @param {import('../index.d.mts').StoreName} store @param {import('../index.d.mts').Kind} kind
 */
export function openTopology(store, kind) {
  const topologies = TOPOLOGIES[store];
  const [first] = Object.keys(topologies);
  return topologies[kind.topology ?? first](kind);
}

/** For the store that is no lock. */
function openNone() {
  return {
    targetFor: () => 'never-locks',
    remains: () => [],
    sample: () => ({}),
    stop: () => undefined,
  };
}
