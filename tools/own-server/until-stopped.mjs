import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

const STOPPED_OR_GONE = ['T', 't', 'Z', 'X', undefined];

/**
 * Resolves when no thread of a process that was sent SIGSTOP runs any more. On a busy machine one that is to stop may first get
 * a turn, and answer. Without /proc nobody can see that, and nothing is waited for.
 *
 * @param {number} pid
 */
export async function untilStopped(pid) {
  while (!threadsOf(pid).every((thread) => STOPPED_OR_GONE.includes(stateOf(pid, thread)))) await pause(1);
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
