import { execFile } from 'node:child_process';
import { appendFile, chown, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { startOwnServer } from '../own-server/index.mjs';
import { until } from '../until/index.mjs';
import { findPostgresServer } from './find-postgres-server.mjs';
import { runPostgres, urlOn } from './run-postgres.mjs';

/** @type {import('./index.d.mts').startStandby} */
export async function startStandby(primary, { synchronous = false } = {}) {
  const how = findPostgresServer();
  const server = await startOwnServer({
    name: 'postgres-standby',
    urlOn,
    prepare: (folder) => copyInto(folder, primary, how.user),
    run: (port, folder) => runPostgres(how, port, folder),
  });
  try {
    await until(() => holds(server, `SELECT status = 'streaming' AS holds FROM pg_stat_wal_receiver`));
    if (synchronous) await waitForStandbys(primary);
  } catch (error) {
    await server.stop();
    throw error;
  }
  return { ...server, promote: async () => void (await query(server.url, 'SELECT pg_promote()')) };
}

/**
 * The files of a paused server are as a crash at that moment would leave them, and Postgres recovers from a crash.
 * pg_basebackup would copy without a pause, but the npm package has no pg_basebackup.
 */
async function copyInto(folder, primary, { uid, gid }) {
  const [{ data_directory: source }] = await query(primary.url, 'SHOW data_directory');
  const data = join(folder, 'data');
  if (uid !== undefined) await chown(folder, uid, gid);
  await primary.pause();
  try {
    await promisify(execFile)('cp', ['-a', source, data]);
  } finally {
    await primary.resume();
  }
  await rm(join(data, 'postmaster.pid'));
  await writeFile(join(data, 'standby.signal'), '');
  const connection = `host=127.0.0.1 port=${primary.port} user=postgres`;
  await appendFile(join(data, 'postgresql.conf'), `primary_conninfo = '${connection}'\n`);
}

/** From now on the primary answers a commit when a standby has it. */
async function waitForStandbys(primary) {
  await query(primary.url, `ALTER SYSTEM SET synchronous_standby_names = '*'`);
  await query(primary.url, 'SELECT pg_reload_conf()');
  await until(() => holds(primary, `SELECT bool_or(sync_state = 'sync') AS holds FROM pg_stat_replication`));
}

const holds = async ({ url }, text) => (await query(url, text))[0]?.holds === true;

/** A standby refuses statements where its settings ask for SERIALIZABLE. */
const ISOLATION = '-c default_transaction_isolation=read\\ committed';

/** @param {string} url @param {string} text */
async function query(url, text) {
  const client = new pg.Client({ connectionString: url, options: ISOLATION });
  client.on('error', () => {});
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}
