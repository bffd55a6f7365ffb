import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { unpackDebianPackages } from '../debian-packages/index.mjs';
import { unprivileged } from '../own-server/index.mjs';

const ADVICE = `No MariaDB server was found, and none could be fetched. Do one of these:
  - install one: apt-get install mariadb-server, or brew install mariadb
  - set MARIADB_BIN to the path of a mariadbd`;

/** @type {import('./index.d.mts').findMariadbServer} */
export function findMariadbServer() {
  const user = unprivileged();
  const found = onThisMachine(user) ?? fetched(user);
  if (!found) throw new Error(ADVICE);
  return { ...found, user };
}

function onThisMachine(user) {
  const { env } = process;
  const chosen = env.MARIADB_BIN;
  if (chosen && !versionOfMariadb(chosen, env, user)) {
    throw new Error(`MARIADB_BIN (${chosen}) is not a MariaDB server that runs here.`);
  }
  const candidates = chosen ? [chosen] : ['mariadbd', '/usr/sbin/mariadbd'];
  for (const command of candidates) {
    const version = versionOfMariadb(command, env, user);
    if (version) return { command, args: [], env, version };
  }
  return undefined;
}

function fetched(user) {
  const unpacked = unpackDebianPackages('mariadb-server', ['mariadb-server-core']);
  if (!unpacked) return undefined;
  const { folder, env } = unpacked;
  const command = join(folder, 'usr/sbin/mariadbd');
  const args = [`--lc-messages-dir=${join(folder, 'usr/share/mysql')}`];
  const version = versionOfMariadb(command, env, user);
  return version && { command, args, env, version };
}

/** @type {import('./index.d.mts').versionOfMariadb} */
export function versionOfMariadb(command, env, user) {
  const options = { env, ...user, cwd: '/', encoding: 'utf8', timeout: 10_000 };
  const { status, stdout } = spawnSync(command, ['--no-defaults', '--version'], options);
  return status === 0 ? stdout.trim() : undefined;
}
