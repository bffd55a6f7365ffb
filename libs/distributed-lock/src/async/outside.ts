import { AsyncResource } from 'node:async_hooks';

/** Made when this file is loaded, which is before any request. */
const nowhere = new AsyncResource('nestjs-distributed-lock');

/**
 * Runs `work` outside of every async context, the application's and ours.
 *
 * For what outlives a call or serves many: timers, sockets, commands. A timer keeps in memory all that an
 * AsyncLocalStorage has where the timer is made, and what the timer runs would find it there.
 */
export function outside<T>(work: () => T): T {
  return nowhere.runInAsyncScope(work);
}
