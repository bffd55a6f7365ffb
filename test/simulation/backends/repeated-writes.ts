/** A write that other clients are first with takes so many round trips: its reply, a reading, and a question for sessions. */
const ROUND_TRIPS = 3;
/** After so many lost writes notes are left, and the write behind them takes turns with those of others. */
const WRITES = 4;

/**
 * docs/guarantees.md, liveness: a write that other processes are first with is made again for one `commandTimeoutMs` at most. On a
 * connection that is too slow for that a release is given up, and repeated after a pause.
 */
export function mayRepeatWrites(roundTripMs: number, commandTimeoutMs: number): boolean {
  return ROUND_TRIPS * WRITES * roundTripMs <= commandTimeoutMs;
}
