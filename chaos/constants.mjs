/** The timings of every trial, in ms: a short lease, so that much happens in ten seconds. */
export const LEASE_MS = 1500;
/** For faults that must not cost a lease: one that is told at once from what they may cost. */
export const LONG_LEASE_MS = 6000;
export const COMMAND_MS = 500;
export const WAIT_MS = 4000;
export const GRACE_MS = 1000;
/** Longest time between two looks of a waiter; a lost message costs this much. */
export const LOOK_MS = 1000;
/** What a busy machine with two cores may add to anything. */
export const SLACK_MS = 500;
/** A caller may be answered so much later than `waitMs` and one command (goal R11). */
export const LATE_MS = 1000;
