import { execFile } from 'node:child_process';
import { appendFile, chmod } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { firstData, startOwnServer } from '../own-server/index.mjs';
import { findPostgresServer } from './find-postgres-server.mjs';
import { runPostgres, urlOn } from './run-postgres.mjs';

/** The log is written before each commit is answered, but nobody waits for the disk: only processes are killed here. */
const SETTINGS = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  fsync: 'off',
  full_page_writes: 'off',
  shared_buffers: '16MB',
  // A killed server leaves its shared memory behind. In the server's folder, `stop` removes it.
  dynamic_shared_memory_type: 'mmap',
};

/** @type {import('./index.d.mts').startPostgresServer} */
export async function startPostgresServer({ settings = {}, env = {} } = {}) {
  const found = findPostgresServer();
  const how = { ...found, env: { ...found.env, ...env } };
  return startOwnServer({
    name: 'postgres-server',
    urlOn,
    prepare: (folder) => initialise(how, folder, { ...SETTINGS, ...settings }),
    run: (port, folder) => runPostgres(how, port, folder),
  });
}

/** @param {import('./index.d.mts').PostgresCommand} how @param {string} folder */
async function initialise({ bin, env, version, user }, folder, settings) {
  const options = ['--username=postgres', '--auth=trust', '--encoding=UTF8', '--no-locale', '--no-sync'];
  const run = { env, cwd: folder, ...user };
  const make = (data) => promisify(execFile)(join(bin, 'initdb'), [...options, '-D', data], run);
  await firstData(folder, { version, user, make });
  await chmod(folder, 0o700);
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${quoted(value)}\n`);
  await appendFile(join(folder, 'data/postgresql.conf'), lines.join(''));
}

const quoted = (value) => `'${`${value}`.replaceAll("'", "''")}'`;
