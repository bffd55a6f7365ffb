/** A waiter rechecks at least this often, whatever notifications it gets. */
export const RECHECK_MS = 1000;
/** A waiter that has not rechecked for so long has left or crashed: its ticket is dropped. */
export const SILENT_WAITER_MS = 3 * RECHECK_MS;
/** A recheck comes so long after the end of the holder's lease that it finds the lease expired. */
const PAST_EXPIRY_MS = 5;

/** When a waiter rechecks: as soon as the holder's lease has expired, and at the latest after `everyMs`. */
export function recheckAfter(remainingMs: number, everyMs = RECHECK_MS): number {
  return Math.min(remainingMs + PAST_EXPIRY_MS, everyMs);
}
