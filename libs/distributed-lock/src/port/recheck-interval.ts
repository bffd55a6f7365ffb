/** A waiter asks again at least this often, however sure it may be of its pushes. */
export const RECHECK_MS = 1000;
/** Who has not asked for so long has left or died: its place is dropped. */
export const SILENT_WAITER_MS = 3 * RECHECK_MS;
/** Waits past the end of the holder's lease, so that a look finds it over and not about to be. */
const PAST_EXPIRY_MS = 5;

/** When a waiter asks again: as soon as the holder's lease is over, and at the latest after `everyMs`. */
export function recheckAfter(remainingMs: number, everyMs = RECHECK_MS): number {
  return Math.min(remainingMs + PAST_EXPIRY_MS, everyMs);
}
