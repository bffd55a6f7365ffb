import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { firstData, runUntilReady, startOwnServer } from '../own-server/index.mjs';
import { findMysqlServer } from './find-mysql-server.mjs';

/** The log is written before each commit is answered, but nobody waits for the disk: only processes are killed here. */
const SETTINGS = {
  bind_address: '127.0.0.1',
  innodb_flush_log_at_trx_commit: 2,
  innodb_buffer_pool_size: '32M',
  performance_schema: 'OFF',
  mysqlx: 'OFF',
  skip_log_bin: 'ON',
};

/** MySQL makes a root for localhost. Whether a connection to 127.0.0.1 counts as that depends on the machine's names. */
const FIRST_STATEMENTS = `CREATE DATABASE test;
CREATE USER root@'127.0.0.1';
GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
`;

/** @type {import('./index.d.mts').startMysqlServer} */
export async function startMysqlServer({ settings = {}, env = {} } = {}) {
  const found = findMysqlServer();
  const how = { ...found, env: { ...found.env, ...env } };
  return startOwnServer({
    name: 'mysql-server',
    urlOn: (port) => `mysql://root@127.0.0.1:${port}/test`,
    prepare: (folder) => initialise(how, folder),
    run: (port, folder) => run(how, port, folder, settings),
  });
}

/** @param {import('./index.d.mts').MysqlCommand} how @param {string} folder */
async function initialise({ command, args, env, version, user }, folder) {
  const statements = join(folder, 'first.sql');
  await writeFile(statements, FIRST_STATEMENTS);
  const make = (data) => {
    const words = [
      '--no-defaults',
      '--initialize-insecure',
      `--datadir=${data}`,
      `--init-file=${statements}`,
    ];
    return promisify(execFile)(command, [...words, ...args], { ...user, env, cwd: folder });
  };
  await firstData(folder, { version, user, make });
}

/** @param {import('./index.d.mts').MysqlCommand} how @param {number} port @param {string} folder */
function run({ command, args, env, user }, port, folder, settings) {
  const where = { port, datadir: join(folder, 'data'), socket: join(folder, 's') };
  const all = Object.entries({ ...SETTINGS, ...settings, ...where });
  const words = all.map(([name, value]) => `--${name}=${value}`);
  return runUntilReady(command, ['--no-defaults', ...words, ...args], {
    ...user,
    env,
    folder,
    cwd: folder,
    isReady: (_pid, log) => log.includes('ready for connections'),
  });
}
