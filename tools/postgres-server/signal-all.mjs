import { setTimeout as pause } from 'node:timers/promises';
import { readFileSync } from 'node:fs';
import { untilStopped } from '../own-server/until-stopped.mjs';
import { familyOf } from './family-of.mjs';

/**
 * Sends a signal to all processes of a server. Postgres has one for each connection, in sessions of their own, so that a
 * signal to the first or to its process group would not reach them.
 *
 * @param {NodeJS.Signals} signal SIGSTOP, SIGCONT or SIGKILL @param {number} pid of the first
 */
export async function signalAll(signal, pid) {
  if (signal === 'SIGCONT') {
    for (const member of familyOf(pid).toReversed()) send(member, signal);
    return;
  }
  // The first starts the others: it is stopped before them, so that none is missed.
  send(pid, 'SIGSTOP');
  const family = familyOf(pid);
  for (const member of family) send(member, signal);
  if (signal === 'SIGSTOP') await Promise.all(family.map(untilStopped));
  if (signal !== 'SIGKILL') return;
  // Memory that they share would pass for a server that runs.
  for (const member of family.slice(1)) while (runs(member)) await pause(5);
}

/** @param {number} pid @param {NodeJS.Signals} signal */
function send(pid, signal) {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}

/** Whom nobody has buried yet does not run. @param {number} pid */
function runs(pid) {
  try {
    process.kill(pid, 0);
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch (error) {
    // Without /proc it is known only that it is there.
    return error.code === 'ENOENT' && process.platform !== 'linux';
  }
}
