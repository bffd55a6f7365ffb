import { readFileSync } from 'node:fs';

/** A clock tick of /proc is 10 ms on every Linux. */
const TICK_US = 10_000;

/**
 * The CPU time that a server's process and its children have used, also those that have ended.
 *
 * @param {number} pid of the first process @returns {number} µs; NaN where there is no /proc
 */
export function serverCpuUs(pid) {
  if (process.platform !== 'linux') return NaN;
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean);
  // Waiting for a child adds its time to that of its parent.
  const own = ticksOf(pid, 4);
  return TICK_US * children.reduce((sum, child) => sum + ticksOf(child, 2), own);
}

/** @param {number | string} pid @param {2 | 4} fields user and system time; with 4 also those of children that have ended */
function ticksOf(pid, fields) {
  try {
    const [, afterName] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(/\) (?!.*\) )/);
    const values = afterName.split(' ').slice(11, 11 + fields);
    return values.reduce((sum, value) => sum + Number(value), 0);
  } catch {
    // It has ended since it was listed.
    return 0;
  }
}
