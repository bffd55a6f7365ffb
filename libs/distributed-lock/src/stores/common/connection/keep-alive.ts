import type { Chance } from '../../../time/chance.js';
import type { Clock } from '../../../time/clock.js';

/** Load balancers forget a connection that is idle for some minutes; some firewalls after one. */
export const KEEP_ALIVE_MS = 30_000;

/**
 * Checks the connections of a store at intervals, so that none of them is idle for long and one that has died is replaced
 * before a caller needs it.
 *
 * @returns a function that stops the checks
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

/** How long a server may take to accept a connection and to answer its first command, in ms. */
export function connectWithinMs(commandTimeoutMs: number): number {
  return 2 * Math.max(commandTimeoutMs, 100);
}

const SLOWEST_RECONNECT_MS = 1000;

/** Full jitter, so that the instances of a service do not come back all at once. */
export function reconnectDelay(chance: Chance, failures: number): number {
  return 20 + chance.random() * Math.min(25 * 2 ** failures, SLOWEST_RECONNECT_MS);
}
