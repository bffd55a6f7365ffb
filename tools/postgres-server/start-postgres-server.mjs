import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { chmod, chown } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { runUntilReady, startOwnServer } from '../own-server/index.mjs';
import { findPostgresServer } from './find-postgres-server.mjs';
import { signalAll } from './signal-all.mjs';

/** The log is written before each commit is answered, but nobody waits for the disk: only processes are killed here. */
const SETTINGS = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  fsync: 'off',
  full_page_writes: 'off',
  shared_buffers: '16MB',
};

/** @type {import('./index.d.mts').startPostgresServer} */
export async function startPostgresServer({ settings = {} } = {}) {
  const how = findPostgresServer();
  return startOwnServer({
    name: 'postgres-server',
    urlOn: (port) => `postgres://postgres@127.0.0.1:${port}/postgres`,
    prepare: (folder) => initialise(how, folder),
    run: (port, folder) => run(how, folder, { ...SETTINGS, ...settings, port }),
  });
}

/** @param {import('./index.d.mts').PostgresCommand} how @param {string} folder */
async function initialise({ bin, env, user }, folder) {
  if (user.uid !== undefined) await chown(folder, user.uid, user.gid);
  await chmod(folder, 0o700);
  const options = ['--username=postgres', '--auth=trust', '--encoding=UTF8', '--no-locale', '--no-sync'];
  await promisify(execFile)(join(bin, 'initdb'), [...options, '-D', join(folder, 'data')], {
    env,
    cwd: folder,
    ...user,
  });
}

function run({ bin, env, user }, folder, settings) {
  const data = join(folder, 'data');
  const words = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  return runUntilReady(join(bin, 'postgres'), ['-D', data, ...words], {
    ...user,
    env,
    folder,
    cwd: folder,
    isReady: (pid) => isReady(join(data, 'postmaster.pid'), pid),
    signal: signalAll,
  });
}

/** Its own word, as pg_ctl reads it; another server may have won the race for the port. */
function isReady(file, pid) {
  if (!existsSync(file)) return false;
  const lines = readFileSync(file, 'utf8').split('\n');
  return Number(lines[0]) === pid && lines[7]?.trim() === 'ready';
}
