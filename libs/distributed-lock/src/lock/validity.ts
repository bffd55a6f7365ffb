/** Two clocks may differ in speed by 1 %; a timer may be late by 20 ms. */
const DRIFT = 0.01;
const TIMER_SLACK_MS = 20;

/** What a holder takes off its lease in ms, to give up before the store does; never more than a fifth. */
export function leaseMargin(leaseMs: number): number {
  return Math.min(leaseMs / 5, TIMER_SLACK_MS + leaseMs * DRIFT);
}

/**
 * Until when a holder may believe in its lease, on the clock that `startedAt` was read from.
 *
 * @param startedAt when the request was sent: the store started the lease at that moment or later, so the holder gives
 * up no later than the store does
 */
export function leaseValidity(startedAt: number, leaseMs: number): number {
  return startedAt + leaseMs - leaseMargin(leaseMs);
}
