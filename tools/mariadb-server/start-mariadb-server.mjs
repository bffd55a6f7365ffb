import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { firstData, runUntilReady, startOwnServer } from '../own-server/index.mjs';
import { findMariadbServer } from './find-mariadb-server.mjs';

const execFileAsync = promisify(execFile);

/** The log is written before each commit is answered, but nobody waits for the disk: only processes are killed here. */
const SETTINGS = [
  '--no-defaults',
  '--skip-grant-tables',
  '--bind-address=127.0.0.1',
  '--innodb-flush-log-at-trx-commit=2',
];

/** @type {import('./index.d.mts').startMariadbServer} */
export async function startMariadbServer({ settings = {}, env = {} } = {}) {
  const found = findMariadbServer();
  const how = { ...found, env: { ...found.env, ...env } };
  return startOwnServer({
    name: 'mariadb-server',
    urlOn: (port) => `mysql://root@127.0.0.1:${port}/test`,
    prepare: (folder) => initialise(how, folder),
    run: (port, folder) => run(how, port, folder, settings),
  });
}

/** As initdb does for Postgres. A server that is killed before its first files are whole would not start again. */
async function initialise({ command, args, env, version, user }, folder) {
  const make = async (data) => {
    const words = [...SETTINGS, `--datadir=${data}`, '--bootstrap', ...args];
    const bootstrap = execFileAsync(command, words, { ...user, env, cwd: folder });
    bootstrap.child.stdin?.end('CREATE DATABASE test;\n');
    await bootstrap;
  };
  await firstData(folder, { version, user, make });
}

function run({ command, args, env, user }, port, folder, settings) {
  const where = { port, datadir: join(folder, 'data'), socket: join(folder, 's') };
  const words = Object.entries({ ...settings, ...where }).map(([name, value]) => `--${name}=${value}`);
  return runUntilReady(command, [...SETTINGS, ...words, ...args], {
    ...user,
    env,
    folder,
    cwd: folder,
    isReady: (_pid, log) => log.includes('ready for connections'),
  });
}
