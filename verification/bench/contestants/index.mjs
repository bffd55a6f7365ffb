import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { curator, redisson } from './java.mjs';

const PEERS = new URL('../peers/', import.meta.url);
const WORKER = fileURLToPath(new URL('../src/worker/main.mjs', import.meta.url));

/**
 * @typedef {object} Entrant one line of the tables
 * @property {string} id the name for `--peers`
 * @property {string} name as shown
 * @property {string} [skipped] why it cannot run here
 * @property {readonly string[]} [command] a process that speaks the protocol of src/worker/main.mjs
 * @property {() => { command: readonly string[] } | { skipped: string }} [prepare] builds it, when it is to run
 * @property {{ leastMs: number, longestMs: number }} [warmUp] where the warm-up for Node is too short
 */

/** @param {string} id @param {URL} module @param {string} name @returns {Entrant} */
const inNode = (id, module, name) => ({
  id,
  name,
  command: [process.execPath, '--expose-gc', '--no-warnings', WORKER, fileURLToPath(module)],
});

/** @param {string} id @param {string} name @param {string} [file] */
const own = (id, name, file = `${id}.mjs`) => inNode(id, new URL(file, import.meta.url), name);

/** @param {string} id @param {string} [name] its package @param {string} [file] @returns {Entrant} */
function peer(id, name = id, file = `${id}.mjs`) {
  const manifest = new URL(`node_modules/${name}/package.json`, PEERS);
  if (!existsSync(manifest)) {
    return { id, name, skipped: 'not installed: npm ci --prefix verification/bench/peers' };
  }
  const { version } = JSON.parse(readFileSync(manifest, 'utf8'));
  return inNode(id, new URL(file, PEERS), `${name} ${version}`);
}

export const FLOOR = own('floor', 'floor: two bare commands');
/** Redis 8.4 and Valkey 9 have one command that does what the floor needs a script for. */
export const NATIVE_FLOOR = own('floor-native', 'floor: SET NX PX, and DELEX or DELIFEQ');
export const QUEUE = own('queue', 'floor: a queue of promises');
export const OURS = own('ours', 'ours, withLock');
/** The same store with a client of node-redis. */
export const OURS_BY_NODE_REDIS = own('ours-node-redis', 'ours by node-redis, withLock');
export const OURS_AWAITED = own('ours-awaited', 'ours, acquire + release');

/** Waits as the platform of OpenCTI has it wait: see the scenario `entities`. @returns {Entrant} */
export const patientRedlock = () => peer('redlock-patient', 'redlock', 'redlock-patient.mjs');

/** @returns {Entrant[]} */
export const peers = () => [
  peer('redis-semaphore'),
  peer('redlock'),
  peer('sesamecare-redlock', '@sesamecare-oss/redlock'),
  peer('simple-redis-mutex'),
  peer('murlock'),
  peer('redlock-universal'),
  peer('node-redisson'),
  peer('verrou', '@verrou/core'),
  ...redisson(),
];

const STATEMENTS = 'floor: two bare statements';
const verrouOnKnex = () => peer('verrou', '@verrou/core', 'verrou-knex.mjs');

export const POSTGRES = {
  floor: own('floor', STATEMENTS, 'sql/postgres-floor.mjs'),
  hop: {
    floor: own('floor', 'floor: a PL/pgSQL function per call', 'sql/postgres-functions.mjs'),
    what: 'the function',
  },
  peers: () => [
    verrouOnKnex(),
    peer('advisory-lock'),
    own('raw', 'pg_advisory_lock, a pool of 10', 'sql/pg-advisory-lock.mjs'),
  ],
};

export const MYSQL = {
  floor: own('floor', STATEMENTS, 'sql/mysql-floor.mjs'),
  peers: () => [verrouOnKnex(), own('raw', 'GET_LOCK, a pool of 10', 'sql/get-lock.mjs')],
};

export const REDIS_CLUSTER = { floor: FLOOR, peers: () => [] };

export const SQLITE = { floor: own('floor', STATEMENTS, 'sql/sqlite-floor.mjs'), peers: () => [] };

const REQUESTS = 'floor: two bare requests';

export const ETCD = {
  floor: own('floor', REQUESTS, 'session/etcd-floor.mjs'),
  hop: {
    floor: own('floor', 'floor: one bare transaction', 'session/etcd-floor.mjs'),
    what: 'a bare transaction',
    isBare: true,
  },
  peers: () => [own('lock-rpc', "etcd's own RPC Lock", 'session/etcd-lock-rpc.mjs'), peer('etcd3')],
};

/** Three members of etcd or ZooKeeper: the floor, and nobody else. */
export const aloneOn = ({ floor }) => ({ floor, peers: () => [] });

export const ZOOKEEPER = {
  floor: own('floor', REQUESTS, 'session/zookeeper-floor.mjs'),
  hop: {
    floor: own('floor', 'floor: one bare create', 'session/zookeeper-floor.mjs'),
    what: 'a bare create',
    isBare: true,
  },
  peers: () => [peer('node-zookeeper-client'), curator()],
};
