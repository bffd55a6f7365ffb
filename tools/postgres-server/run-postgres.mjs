import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runUntilReady } from '../own-server/index.mjs';
import { signalAll } from './signal-all.mjs';

/** @param {number} port */
export const urlOn = (port) => `postgres://postgres@127.0.0.1:${port}/postgres`;

/**
 * Runs the server whose data are in `folder`, until it takes connections.
 *
 * @param {import('./index.d.mts').PostgresCommand} how @param {number} port @param {string} folder
 */
export function runPostgres({ bin, env, user }, port, folder) {
  const data = join(folder, 'data');
  return runUntilReady(join(bin, 'postgres'), ['-D', data, '-p', `${port}`], {
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
