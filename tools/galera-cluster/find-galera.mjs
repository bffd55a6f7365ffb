import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { unpackDebianPackages } from '../debian-packages/index.mjs';
import { versionOfMariadb } from '../mariadb-server/index.mjs';
import { unprivileged } from '../own-server/index.mjs';

const ADVICE = `No MariaDB server with Galera was found, and none could be fetched. Do one of these:
  - install both: apt-get install mariadb-server galera-4
  - set MARIADB_BIN to the path of a mariadbd, and GALERA_LIBRARY to that of a libgalera_smm.so`;

const LIBRARIES = ['/usr/lib/galera/libgalera_smm.so', '/usr/lib64/galera-4/libgalera_smm.so'];

/** @type {import('./index.d.mts').findGalera} */
export function findGalera() {
  const user = unprivileged();
  const found = onThisMachine(user) ?? fetched(user);
  if (!found) throw new Error(ADVICE);
  return { ...found, user };
}

/** @param {import('./index.d.mts').GaleraCommand['user']} user */
function onThisMachine(user) {
  const { env } = process;
  const libraries = env.GALERA_LIBRARY ? [env.GALERA_LIBRARY] : LIBRARIES;
  const library = libraries.find((path) => existsSync(path));
  const commands = env.MARIADB_BIN ? [env.MARIADB_BIN] : ['mariadbd', '/usr/sbin/mariadbd'];
  for (const command of library ? commands : []) {
    const version = versionOfMariadb(command, env, user);
    if (version) return { command, args: [], env, version, library };
  }
  return undefined;
}

/**
 * Both come from one archive, because a server loads only a library of its own version of the interface.
 *
 * @param {import('./index.d.mts').GaleraCommand['user']} user
 */
function fetched(user) {
  const unpacked = unpackDebianPackages('galera-cluster', ['mariadb-server-core', 'galera-4']);
  if (!unpacked) return undefined;
  const { folder, env } = unpacked;
  const command = join(folder, 'usr/sbin/mariadbd');
  const library = join(folder, 'usr/lib/galera/libgalera_smm.so');
  const args = [`--lc-messages-dir=${join(folder, 'usr/share/mysql')}`];
  const version = existsSync(library) ? versionOfMariadb(command, env, user) : undefined;
  return version && { command, args, env, version, library };
}
