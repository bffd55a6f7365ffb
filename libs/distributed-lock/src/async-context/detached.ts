import { AsyncResource } from 'node:async_hooks';

/** The async context in which this file is loaded, before any request. */
const nowhere = new AsyncResource('nestjs-distributed-lock');

/**
 * Runs `work` outside of every async context, the application's and ours.
 *
 * For timers, sockets and commands, which outlive a call or serve many. A timer keeps the content of every
 * AsyncLocalStorage where it is made, and runs its task with that content.
 */
export function detached<T>(work: () => T): T {
  return nowhere.runInAsyncScope(work);
}
