import type { HoldRecord } from '../history/history.js';

/** Nested calls that share one hold have its token and its permits, and hold its key together. */
export function isShareOf(a: HoldRecord, b: HoldRecord): boolean {
  return sharedHoldOf(a) === sharedHoldOf(b);
}

/** The hold itself, if it is not a share of another one. */
export function sharedHoldOf(hold: HoldRecord): HoldRecord {
  return hold.sharedFrom ?? hold;
}
