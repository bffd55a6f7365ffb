import type { Chance } from '../../time/chance.js';

const PAUSE_MS = { least: 2, most: 100 };

/**
 * How long a request pauses that has found its row locked by another transaction for the n-th time in a row. A commit of
 * another client takes a millisecond or two. A transaction of the application may take as long as it likes.
 */
export function blockedPause(chance: Chance, times: number): number {
  return Math.min(PAUSE_MS.least * 2 ** (times - 1), PAUSE_MS.most) * (0.5 + chance.random());
}
