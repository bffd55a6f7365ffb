import { chown, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { runUntilReady, startOwnServer } from '../own-server/index.mjs';
import { findMariadbServer } from './find-mariadb-server.mjs';

/** The log is written before each commit is answered, but nobody waits for the disk: only processes are killed here. */
const SETTINGS = [
  '--no-defaults',
  '--skip-grant-tables',
  '--bind-address=127.0.0.1',
  '--innodb-flush-log-at-trx-commit=2',
];

/** @type {import('./index.d.mts').startMariadbServer} */
export async function startMariadbServer() {
  const how = findMariadbServer();
  return startOwnServer({
    name: 'mariadb-server',
    urlOn: (port) => `mysql://root@127.0.0.1:${port}/test`,
    prepare: (folder) => initialise(how, folder),
    run: (port, folder) => run(how, port, folder),
  });
}

/** @param {import('./index.d.mts').MariadbCommand} how @param {string} folder */
async function initialise({ user }, folder) {
  await mkdir(join(folder, 'data'));
  await writeFile(join(folder, 'init.sql'), 'CREATE DATABASE IF NOT EXISTS test;\n');
  if (user.uid === undefined) return;
  for (const place of [folder, join(folder, 'data')]) await chown(place, user.uid, user.gid);
}

function run({ command, args, env, user }, port, folder) {
  const where = [`--port=${port}`, `--datadir=${join(folder, 'data')}`, `--socket=${join(folder, 's')}`];
  const first = `--init-file=${join(folder, 'init.sql')}`;
  return runUntilReady(command, [...SETTINGS, ...where, first, ...args], {
    ...user,
    env,
    folder,
    cwd: folder,
    isReady: (_pid, log) => log.includes('ready for connections'),
  });
}
