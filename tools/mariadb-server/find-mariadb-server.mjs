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
  if (chosen && !runs(chosen, env, user)) {
    throw new Error(`MARIADB_BIN (${chosen}) is not a MariaDB server that runs here.`);
  }
  const candidates = chosen ? [chosen] : ['mariadbd', '/usr/sbin/mariadbd'];
  const command = candidates.find((candidate) => runs(candidate, env, user));
  return command && { command, args: [], env };
}

function fetched(user) {
  const unpacked = unpackDebianPackages('mariadb-server', ['mariadb-server-core']);
  if (!unpacked) return undefined;
  const { folder, env } = unpacked;
  const command = join(folder, 'usr/sbin/mariadbd');
  const args = [`--lc-messages-dir=${join(folder, 'usr/share/mysql')}`];
  return runs(command, env, user) ? { command, args, env } : undefined;
}

/** Whether whom the server will run as can run it: root's own folders are closed to others. */
function runs(command, env, user) {
  const options = { env, ...user, cwd: '/', stdio: 'ignore', timeout: 10_000 };
  return spawnSync(command, ['--no-defaults', '--version'], options).status === 0;
}
