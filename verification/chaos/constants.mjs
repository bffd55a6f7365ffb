/** The timings of every trial, in ms: a short lease, so that much happens in ten seconds. */
export const LEASE_MS = 1500;
/** For faults that must not cost a lease: one that is told at once from what they may cost. */
export const LONG_LEASE_MS = 6000;
export const COMMAND_MS = 500;
/** A grant that another client wrote is over by then, unless its owner confirms it. */
export const INITIAL_LEASE_MS = 1000;
export const WAIT_MS = 4000;
export const GRACE_MS = 1000;
/** Longest time between two looks of a waiter; a lost message costs this much. */
export const LOOK_MS = 1000;
/** The session of a client of etcd, which counts in whole seconds, or of ZooKeeper. */
export const SESSION_MS = 2000;
/** From the end of a dead client's session until a waiter knows of it: the server looks every half second, and the waiter each second for what it may have cached for one. */
export const SESSION_NOTICED_MS = 2500;
/** A busy machine with two cores may add this much to any time. */
export const SLACK_MS = 500;
/** A caller may be answered so much later than `waitMs` and one command (goal R11). */
export const LATE_MS = 1000;
/** The end of a lease or a recheck is usually late by no more than this (goals R5, R15). */
export const LATE_TIMER_MS = 150;
/** The limits of the median recovery: after errors, resets and lost bytes (goals R6 to R8) … */
export const GOAL_MS = 500;
/** … after the server or the network is back (goal R9) … */
export const BACK_GOAL_MS = 1000;
/** … and after a promotion (goal R10). */
export const FAILOVER_GOAL_MS = 1500;
