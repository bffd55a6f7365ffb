import { chown, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { runUntilReady, startOwnServer } from '../own-server/index.mjs';
import { findPgbouncer } from './find-pgbouncer.mjs';

const ALL_CLIENTS = 1_000;

/** @type {import('./index.d.mts').startPgbouncer} */
export async function startPgbouncer(postgres, { mode = 'transaction', settings = {} } = {}) {
  const how = findPgbouncer();
  const common = { listen_addr: '127.0.0.1', auth_type: 'any', max_client_conn: ALL_CLIENTS };
  const sockets = { unix_socket_dir: '' };
  return startOwnServer({
    name: 'pgbouncer',
    urlOn: (port) => `postgres://postgres@127.0.0.1:${port}/postgres`,
    run: (port, folder) =>
      run(how, folder, postgres, { ...common, ...sockets, pool_mode: mode, ...settings, listen_port: port }),
  });
}

/** @param {import('./index.d.mts').PgbouncerCommand} how @param {string} folder */
async function run({ command, env, user }, folder, postgres, settings) {
  const file = join(folder, 'pgbouncer.ini');
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`);
  const databases = ['[databases]', `* = host=127.0.0.1 port=${postgres.port} user=postgres`];
  await writeFile(file, [...databases, '[pgbouncer]', ...lines, ''].join('\n'));
  if (user.uid !== undefined) for (const place of [folder, file]) await chown(place, user.uid, user.gid);
  return runUntilReady(command, [file], {
    ...user,
    env,
    folder,
    cwd: folder,
    isReady: (_pid, log) => log.includes('process up'),
  });
}
