import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { unpackDebianPackages } from '../debian-packages/index.mjs';
import { unprivileged } from '../own-server/index.mjs';
import { cachedMysql, fetchMysql } from './maven-mysql.mjs';

const ADVICE = `No MySQL server was found, and none was fetched. Do one of these:
  - fetch one from Maven Central, half a gigabyte (Linux on x64, needs Maven and a JDK): node tools/fetch-servers.mjs
  - install one: apt-get install mysql-server on Ubuntu, or brew install mysql
  - set MYSQL_BIN to the path of a mysqld`;

/** @type {import('./index.d.mts').findMysqlServer} */
export function findMysqlServer({ large = process.env.CI === 'true' } = {}) {
  const user = unprivileged();
  const found = onThisMachine(user) ?? fetched(large, user);
  if (!found) throw new Error(ADVICE);
  return { ...found, user };
}

function onThisMachine(user) {
  const { env } = process;
  const chosen = env.MYSQL_BIN;
  if (chosen && !versionOf(chosen, env, user)) {
    throw new Error(`MYSQL_BIN (${chosen}) is not a MySQL server that runs here.`);
  }
  const candidates = chosen ? [chosen] : ['mysqld', '/usr/sbin/mysqld'];
  for (const command of candidates) {
    const version = versionOf(command, env, user);
    if (version) return { command, args: [], env, version };
  }
  return undefined;
}

function fetched(large, user) {
  const folder = large ? fetchMysql() : cachedMysql();
  const command = folder && join(folder, 'bin/mysqld');
  if (!command) return undefined;
  const args = [`--basedir=${folder}`, `--lc-messages-dir=${join(folder, 'share')}`];
  for (const envOf of [() => process.env, withAsyncIo]) {
    const env = envOf();
    const version = versionOf(command, env, user);
    if (version) return { command, args, env, version };
  }
  return undefined;
}

/** The archive lacks one library that MySQL needs. */
function withAsyncIo() {
  return unpackDebianPackages('libaio', ['libaio1'])?.env ?? process.env;
}

/**
 * MariaDB's server may be called mysqld, too. The user that the server will run as must be able to run it, because root's own
 * folders are closed to others.
 *
 * @returns {string | undefined} what MySQL says of its version
 */
function versionOf(command, env, user) {
  const options = { env, ...user, cwd: '/', encoding: 'utf8', timeout: 10_000 };
  const { stdout } = spawnSync(command, ['--no-defaults', '--version'], options);
  const [version] = /\bVer \d.*/.exec(stdout ?? '') ?? [];
  return version && !version.includes('MariaDB') ? `MySQL ${version}` : undefined;
}
