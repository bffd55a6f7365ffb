import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { unpackDebianPackages } from '../debian-packages/index.mjs';

const ADVICE = `No Redis server was found, and none could be fetched. Do one of these:
  - install one, so that redis-server is on the PATH: apt-get install redis-server, or brew install redis
  - set REDIS_SERVER_BIN to the path of a redis-server or valkey-server
  - start Docker
  - set REDIS_URL to a server that may be used for tests: redis://127.0.0.1:6379`;

/** @type {import('./index.d.mts').findRedisServer} */
export function findRedisServer() {
  const found = onThisMachine() ?? fetched() ?? docker();
  if (!found) throw new Error(ADVICE);
  return found;
}

function onThisMachine() {
  const chosen = process.env.REDIS_SERVER_BIN;
  if (chosen && !runs(chosen))
    throw new Error(`REDIS_SERVER_BIN (${chosen}) is not a Redis server that runs here.`);
  const command = chosen ? chosen : ['redis-server', 'valkey-server'].find((name) => runs(name));
  return command ? { command, env: process.env, container: false } : undefined;
}

function fetched() {
  const unpacked = unpackDebianPackages('redis-server', ['redis-server', 'redis-tools']);
  if (!unpacked) return undefined;
  const { folder, env } = unpacked;
  const command = join(folder, 'usr/bin/redis-server');
  return runs(command, env) ? { command, env, container: false } : undefined;
}

/** Asks the daemon: the client alone is of no use. */
function docker() {
  const answers = spawnSync('docker', ['info'], { stdio: 'ignore', timeout: 10_000 }).status === 0;
  return answers ? { command: 'docker', env: process.env, container: true } : undefined;
}

/** @param {string} command @param {NodeJS.ProcessEnv} [env] */
function runs(command, env = process.env) {
  return spawnSync(command, ['--version'], { env, stdio: 'ignore', timeout: 10_000 }).status === 0;
}
