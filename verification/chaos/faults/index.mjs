import { INITIAL_LEASE_MS, SESSION_MS, SESSION_NOTICED_MS } from '../constants.mjs';
import { SESSIONS, SQL, STORES } from '../stores.mjs';
import { REDIS_CLOCK_FAULTS, SQL_CLOCK_FAULTS } from './clocks.mjs';
import { CLUSTER_FAULTS } from './cluster.mjs';
import { CONNECTION_FAULTS, IDLE_FORGOTTEN } from './connections.mjs';
import { DATA_FAULTS } from './data.mjs';
import { LOADS } from './load.mjs';
import { MEMBER_FAULTS, ZOOKEEPER_FAULTS } from './members.mjs';
import { mixes } from './mixed.mjs';
import { MYSQL_FAULTS, READ_ONLY } from './mysql.mjs';
import { NETWORK_FAULTS } from './network.mjs';
import { OPERATOR_FAULTS } from './operator.mjs';
import { POSTGRES_FAULTS } from './postgres.mjs';
import { processFaults } from './processes.mjs';
import { QUORUM_FAULTS } from './quorum.mjs';
import { REFUSALS } from './refusals.mjs';
import { SENTINEL_FAULTS } from './sentinel.mjs';
import { SERVER_FAULTS } from './server.mjs';
import {
  ETCD_FAULTS,
  SESSION_CONNECTION_FAULTS,
  SESSION_LOADS,
  SESSION_OPERATOR_FAULTS,
} from './sessions.mjs';
import { SQL_CONNECTION_FAULTS } from './sql-connections.mjs';
import { SQL_LOADS } from './sql-loads.mjs';
import { SQL_OPERATOR_FAULTS } from './sql-operator.mjs';
import { SQL_SERVER_FAULTS } from './sql-server.mjs';

/** Who is dead has its session for a while. */
const OF_SESSIONS = {
  unreachedMs: SESSION_NOTICED_MS,
  leaseMs: SESSION_MS,
  noticedMs: SESSION_NOTICED_MS,
};

/** Which faults exist for which stores. */
const SINGLES = [
  on(STORES, LOADS),
  on(SQL, SQL_LOADS),
  on(SESSIONS, SESSION_LOADS),
  on(['redis'], processFaults({ unreachedMs: 0 })),
  on(SQL, processFaults({ unreachedMs: INITIAL_LEASE_MS })),
  on(SESSIONS, processFaults(OF_SESSIONS)),
  on(['redis'], SERVER_FAULTS, OPERATOR_FAULTS, REFUSALS, DATA_FAULTS),
  on(SQL, SQL_SERVER_FAULTS, SQL_OPERATOR_FAULTS),
  on(SESSIONS, MEMBER_FAULTS, SESSION_OPERATOR_FAULTS),
  on(STORES, CONNECTION_FAULTS),
  on(['redis'], [{ ...IDLE_FORGOTTEN, sparesMajority: true }]),
  on(SQL, [IDLE_FORGOTTEN]),
  on(STORES, NETWORK_FAULTS),
  on(SQL, SQL_CONNECTION_FAULTS),
  on(SESSIONS, SESSION_CONNECTION_FAULTS),
  on(SQL, SQL_CLOCK_FAULTS),
  on(['redis'], REDIS_CLOCK_FAULTS, SENTINEL_FAULTS, CLUSTER_FAULTS, QUORUM_FAULTS),
  on(['postgres'], POSTGRES_FAULTS),
  on(['mysql', 'mariadb'], MYSQL_FAULTS),
  on(['mysql'], READ_ONLY),
  on(['etcd'], ETCD_FAULTS),
  on(['zookeeper'], ZOOKEEPER_FAULTS),
].flat();

/**
 * Every kind of fault for a store.
 *
 * @type {import('../index.d.mts').kindsOf}
 */
export function kindsOf(store) {
  const singles = SINGLES.filter(({ stores }) => stores.includes(store));
  return [...singles, ...mixes(singles, store)];
}

/** @param {readonly import('../index.d.mts').StoreName[]} stores @param {readonly import('../index.d.mts').Kind[][]} lists */
function on(stores, ...lists) {
  return lists.flat().map((kind) => ({ stores, ...kind }));
}
