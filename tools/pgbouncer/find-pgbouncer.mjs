import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { unpackDebianPackages } from '../debian-packages/index.mjs';
import { unprivileged } from '../own-server/index.mjs';

const ADVICE = `No PgBouncer was found, and none could be fetched. Do one of these:
  - install one: apt-get install pgbouncer, or brew install pgbouncer
  - set PGBOUNCER_BIN to the path of a pgbouncer`;

/** @type {import('./index.d.mts').findPgbouncer} */
export function findPgbouncer() {
  const user = unprivileged();
  const found = onThisMachine(user) ?? fetched(user);
  if (!found) throw new Error(ADVICE);
  return { ...found, user };
}

function onThisMachine(user) {
  const { env } = process;
  const chosen = env.PGBOUNCER_BIN;
  const candidates = chosen ? [chosen] : ['pgbouncer', '/usr/sbin/pgbouncer'];
  const found = candidates.map((command) => runnable(command, env, user)).find(Boolean);
  if (chosen && !found) throw new Error(`PGBOUNCER_BIN (${chosen}) is not a PgBouncer that runs here.`);
  return found;
}

function fetched(user) {
  const unpacked = unpackDebianPackages('pgbouncer', ['pgbouncer']);
  return unpacked && runnable(join(unpacked.folder, 'usr/sbin/pgbouncer'), unpacked.env, user);
}

/** The user that the pooler will run as must be able to run it, because root's own folders are closed to others. */
function runnable(command, env, user) {
  const options = { env, ...user, cwd: '/', encoding: 'utf8', timeout: 10_000 };
  const version = /^PgBouncer (\d+\.\d+)/.exec(spawnSync(command, ['--version'], options).stdout ?? '')?.[1];
  return version && { command, env, version };
}
