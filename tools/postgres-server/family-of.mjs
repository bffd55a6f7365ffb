import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';

/**
 * A process and those that it started, itself first.
 *
 * Linux lists them in /proc, where ps may not be installed.
 *
 * @param {number} pid @returns {number[]}
 */
export function familyOf(pid) {
  const list = `/proc/${pid}/task/${pid}/children`;
  if (existsSync(list)) return [pid, ...readFileSync(list, 'utf8').split(' ').filter(Boolean).map(Number)];
  const listing = spawnSync('ps', ['-A', '-o', 'ppid=,pid='], { encoding: 'utf8' }).stdout;
  const pairs = listing.split('\n').map((line) => line.trim().split(/\s+/).map(Number));
  return [pid, ...pairs.filter(([parent]) => parent === pid).map(([, child]) => child)];
}
