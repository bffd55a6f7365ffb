/** A waiter rechecks at least this often, whatever notifications it gets. */
export const RECHECK_MS = 1000;
/** The store drops the ticket of a waiter that has not rechecked for this long, because it has left or crashed. */
export const SILENT_WAITER_MS = 3 * RECHECK_MS;
/** A recheck is sent this long after the end of the holder's lease, so that it finds the lease expired. */
const PAST_EXPIRY_MS = 5;

/** When a waiter rechecks: as soon as the holder's lease has expired, and at the latest after `everyMs`. */
export function recheckAfter(remainingMs: number, everyMs = RECHECK_MS): number {
  return Math.min(remainingMs + PAST_EXPIRY_MS, everyMs);
}
