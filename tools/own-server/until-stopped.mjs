import { readdirSync, readFileSync } from 'node:fs';
import { until } from '../until/index.mjs';

const STOPPED_OR_GONE = ['T', 't', 'Z', 'X', undefined];

/**
 * Resolves when no thread of a process that was sent SIGSTOP runs any more. On a busy machine a thread may get one more turn
 * before it stops, and answer. Without /proc nobody sees that, so it resolves at once.
 *
 * @param {number} pid
 */
export function untilStopped(pid) {
  return until(() => threadsOf(pid).every((thread) => STOPPED_OR_GONE.includes(stateOf(pid, thread))));
}

/** @param {number} pid @returns {readonly string[]} */
function threadsOf(pid) {
  return unlessGone(() => readdirSync(`/proc/${pid}/task`)) ?? [];
}

/** The letter after the name, which may have brackets itself. @param {number} pid @param {string} thread */
function stateOf(pid, thread) {
  const text = unlessGone(() => readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8'));
  return text?.[text.lastIndexOf(')') + 2];
}

/** @template T @param {() => T} read @returns {T | undefined} */
function unlessGone(read) {
  try {
    return read();
  } catch (error) {
    if (error.code === 'ENOENT' || error.code === 'ESRCH') return undefined;
    throw error;
  }
}
