import { execFile } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import mysql from 'mysql2/promise';
import { startOwnCluster } from '../own-cluster/index.mjs';
import { firstData, runUntilReady } from '../own-server/index.mjs';
import { spawnGuarded } from '../processes/index.mjs';
import { until } from '../until/index.mjs';
import { findGalera } from './find-galera.mjs';

const execFileAsync = promisify(execFile);

const SETTINGS = {
  'bind-address': '127.0.0.1',
  'innodb-flush-log-at-trx-commit': 2,
  'innodb-buffer-pool-size': '32M',
  'performance-schema': 'OFF',
  'binlog-format': 'ROW',
  'innodb-autoinc-lock-mode': 2,
  'wsrep-on': 'ON',
  'wsrep-cluster-name': 'locks',
  'wsrep-node-address': '127.0.0.1',
  'wsrep-sst-method': 'writes',
};
const PROVIDER = {
  'gcache.size': '16M',
  // A node that is killed or paused leaves the others after a few seconds.
  'evs.suspect_timeout': 'PT2S',
  'evs.inactive_timeout': 'PT4S',
  'evs.inactive_check_period': 'PT0.5S',
  'evs.keepalive_period': 'PT0.5S',
};
/**
 * What a node calls that joins, and the one that lets it join. All nodes begin with the same data, so the other one only ever sends
 * the writes that the new one has missed, and never copies its files. Arguments are pairs, except --bypass.
 */
const TRANSFER = `#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in --role) role=$2 ;; --gtid) position=$2 ;; --bypass) only_writes=1 ;; esac
  shift
done
if [ "$role" = joiner ]; then
  echo 'ready 127.0.0.1:1'
  echo "$NODE_POSITION"
elif [ "$only_writes" ]; then
  echo continue
  echo "done $position"
else
  echo 'this node has missed more than the others have kept' >&2
  exit 1
fi
`;
const ANSWER_MS = 2_000;
const START_MS = 30_000;
const urlOn = (port) => `mysql://root@127.0.0.1:${port}/test`;

/** @typedef {import('../own-cluster/index.d.mts').Place<'group' | 'transfer'>} Place */

/** @type {import('./index.d.mts').startGaleraCluster} */
export async function startGaleraCluster({ size = 3, settings = {}, envOf = () => ({}) } = {}) {
  const found = findGalera();
  return startOwnCluster({
    name: 'galera-cluster',
    size,
    portNames: ['group', 'transfer'],
    urlOn,
    connect: async () => /** @type {{ starts: Promise<unknown>[] }} */ ({ starts: [] }),
    run: (place, places, { starts }) => {
      const env = { ...found.env, ...envOf(place.id) };
      // One after the other: nodes that look for each other while the first one makes the cluster take half a minute to agree.
      const before = starts.at(-1);
      const start = Promise.resolve(before).then(() => run({ ...found, env }, { place, places, settings }));
      starts.push(start.catch(() => undefined));
      return start;
    },
    isHealthy,
    isLeader: async () => false,
  });
}

/** @param {import('./index.d.mts').GaleraCommand} how */
async function run(how, { place, places, settings }) {
  const { folder, id } = place;
  const isFirstStart = !existsSync(join(folder, 'data'));
  if (isFirstStart) await initialise(how, place);
  const addresses = places.map((of) => `127.0.0.1:${of.ports.group}`).join(',');
  const words = wordsOfNode(how, place, {
    ...settings,
    'wsrep-node-name': `n${id}`,
    'wsrep-cluster-address': `gcomm://${isFirstStart && id === 1 ? '' : addresses}`,
  });
  const position = await positionOf(how, folder, words);
  return runUntilReady(how.command, [...words, `--wsrep-start-position=${position}`], {
    ...how.user,
    env: { ...how.env, PATH: `${folder}:${how.env.PATH}`, NODE_POSITION: position },
    folder,
    cwd: folder,
    isReady: (_pid, log) => log.includes('ready for connections'),
  });
}

/**
 * @param {import('./index.d.mts').GaleraCommand} how
 * @param {Place} place
 * @param {Record<string, string | number>} settings
 */
function wordsOfNode({ args, library }, { folder, ports }, settings) {
  const provider = {
    ...PROVIDER,
    'gmcast.listen_addr': `tcp://127.0.0.1:${ports.group}`,
    'ist.recv_addr': `127.0.0.1:${ports.transfer}`,
  };
  const words = wordsOf({
    ...SETTINGS,
    ...settings,
    port: ports.client,
    datadir: join(folder, 'data'),
    socket: join(folder, 's'),
    'wsrep-provider': library,
    'wsrep-provider-options': Object.entries(provider)
      .map(([name, value]) => `${name}=${value}`)
      .join(';'),
  });
  return ['--no-defaults', '--skip-grant-tables', ...words, ...args];
}

/** @param {Record<string, string | number>} settings */
const wordsOf = (settings) => Object.entries(settings).map(([name, value]) => `--${name}=${value}`);

/**
 * Each node begins as a copy of one that was a cluster by itself, so that all of them are at the same position of the same history.
 *
 * @param {import('./index.d.mts').GaleraCommand} how
 * @param {Place} place
 */
async function initialise(how, place) {
  const { command, args, env, version, user } = how;
  const { folder } = place;
  const make = async (data) => {
    const words = ['--no-defaults', `--datadir=${data}`, '--bootstrap', ...args];
    const bootstrap = execFileAsync(command, words, { ...user, env, cwd: folder });
    bootstrap.child.stdin?.end('CREATE DATABASE mysql;\nCREATE DATABASE test;\n');
    await bootstrap;
    const alone = wordsOfNode(how, place, { 'wsrep-cluster-address': 'gcomm://' });
    const { exited } = spawnGuarded(command, alone, { ...user, env, cwd: folder });
    await until(() => isHealthy(place).catch(() => false), START_MS);
    await ask(place, 'SHUTDOWN');
    await exited;
    for (const file of ['galera.cache', 'gvwstate.dat']) await rm(join(data, file), { force: true });
  };
  await firstData(folder, { version: `${version} galera`, user, make });
  writeFileSync(join(folder, 'wsrep_sst_writes'), TRANSFER, { mode: 0o755 });
}

/**
 * Up to where a node has the writes of the cluster, as its storage says.
 *
 * @param {import('./index.d.mts').GaleraCommand} how
 * @param {string} folder
 * @param {string[]} words
 */
async function positionOf({ command, env, user }, folder, words) {
  const log = join(folder, 'recovery.err');
  const all = [...words, '--wsrep-recover', `--log-error=${log}`];
  await execFileAsync(command, all, { ...user, env, cwd: folder });
  return /Recovered position: (\S+)/.exec(readFileSync(log, 'utf8'))[1];
}

async function isHealthy(place) {
  const rows = await ask(place, STATUS);
  return rows.map(({ Value }) => Value).join() === 'Synced,ON';
}

const STATUS = "SHOW STATUS WHERE Variable_name IN ('wsrep_local_state_comment', 'wsrep_ready')";

async function ask({ ports }, sql) {
  const connection = await mysql.createConnection({ uri: urlOn(ports.client), connectTimeout: ANSWER_MS });
  connection.on('error', () => undefined);
  try {
    return (await connection.query({ sql, timeout: ANSWER_MS }))[0];
  } finally {
    connection.destroy();
  }
}
