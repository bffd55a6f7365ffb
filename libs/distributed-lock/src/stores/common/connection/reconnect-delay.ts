import type { Chance } from '../../../time/chance.js';

const SLOWEST_RECONNECT_MS = 1000;

/** Full jitter, so that the instances of a service do not come back all at once. */
export function reconnectDelay(chance: Chance, failures: number): number {
  return 20 + chance.random() * Math.min(25 * 2 ** failures, SLOWEST_RECONNECT_MS);
}
