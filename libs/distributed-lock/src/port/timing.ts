/** We assume that two clocks differ in speed by at most 1 %, and that a timer fires at most 20 ms late. */
const DRIFT = 0.01;
const TIMER_SLACK_MS = 20;
/** Long leases need no larger margin: 1 s per hour is 280 ppm, and quartz clocks drift less than that. */
const LARGEST_MARGIN_MS = 1000;

/**
 * Until when a holder may believe that it has its lock, on the clock that `startedAt` was read from.
 *
 * @param startedAt when the request was sent: the store started the lease at that moment or later, so the holder gives up no later than
 * the store does
 */
export function leaseValidity(startedAt: number, leaseMs: number): number {
  return startedAt + leaseMs - leaseMargin(leaseMs);
}

/** The margin in ms that a holder takes off its lease, so that it gives up before the store does. At most a fifth of the lease. */
export function leaseMargin(leaseMs: number): number {
  return Math.min(leaseMs / 5, TIMER_SLACK_MS + leaseMs * DRIFT, LARGEST_MARGIN_MS);
}

/** How far two clocks may drift apart within `ms`. */
export function driftWithin(ms: number): number {
  return ms * DRIFT;
}

/** How often a store reads the state of the keys that its client holds, if the back end sends no notifications. */
export const HELD_POLL_MS = 250;

/**
 * The longest time until a holder's process has read a message that the back end has for it, such as that of a takeover, provided that
 * the process reaches the back end. For a store that reads at intervals, the worst case is: a read was executed just before the message
 * came and is still under way; then the store pauses; then it reads again.
 *
 * @param commandTimeoutMs of the holder's store: a read that takes longer has failed. A request that takes longer still, or a message
 * that the back end loses or delays, counts as a fault.
 */
export function maxNoticeMs(commandTimeoutMs: number): number {
  return HELD_POLL_MS + 2 * commandTimeoutMs;
}

/** A waiter rechecks at least this often, even if notifications come. */
export const RECHECK_MS = 1000;
/** The store drops the ticket of a waiter that has not rechecked for this long, because it has left or crashed. */
export const SILENT_WAITER_MS = 3 * RECHECK_MS;
/** A recheck is sent this long after the holder's lease should have ended, so that it finds the lease expired. */
const PAST_EXPIRY_MS = 5;

/** After how many ms a waiter rechecks: as soon as the holder's lease has expired, and at the latest after `everyMs`. */
export function recheckAfter(remainingMs: number, everyMs = RECHECK_MS): number {
  return Math.min(remainingMs + PAST_EXPIRY_MS, everyMs);
}
