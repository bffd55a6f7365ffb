import type { Clock } from '../../../time/clock.js';

/** Load balancers forget a connection that is idle for some minutes; some firewalls after one. */
export const KEEP_ALIVE_MS = 30_000;

/**
 * Checks the connections of a store at intervals, so that none of them is idle for long and one that has died is replaced
 * before a caller needs it.
 *
 * @returns stops that
 */
export function keepAlive(clock: Clock, check: () => void): () => void {
  let cancel = (): void => undefined;
  const wait = (): void => {
    cancel = clock.after(KEEP_ALIVE_MS, () => {
      wait();
      check();
    });
  };
  wait();
  return () => cancel();
}
