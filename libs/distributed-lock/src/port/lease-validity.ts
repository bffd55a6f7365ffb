/** Two clocks may differ in speed by 1 %; a timer may be late by 20 ms. */
const DRIFT = 0.01;
const TIMER_SLACK_MS = 20;
/** Long leases need no larger margin: 1 s per hour is 280 ppm, and quartz clocks drift less than that. */
const LARGEST_MARGIN_MS = 1000;

/**
 * Until when a holder may believe in its lease, on the clock that `startedAt` was read from.
 *
 * @param startedAt when the request was sent: the store started the lease at that moment or later, so the holder gives
 * up no later than the store does
 */
export function leaseValidity(startedAt: number, leaseMs: number): number {
  return startedAt + leaseMs - leaseMargin(leaseMs);
}

/** The margin in ms that a holder takes off its lease, to give up before the store does. At most a fifth of the lease. */
export function leaseMargin(leaseMs: number): number {
  return Math.min(leaseMs / 5, TIMER_SLACK_MS + leaseMs * DRIFT, LARGEST_MARGIN_MS);
}

/** How far two clocks may have run apart within `ms`. */
export function driftWithin(ms: number): number {
  return ms * DRIFT;
}
