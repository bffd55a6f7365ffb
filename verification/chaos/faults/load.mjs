import { GOAL_MS } from '../constants.mjs';

/** Nothing stands in the way of whoever is next; also when callers leave (goal R16). */
const LIMITS = { idleMs: GOAL_MS };

/** No fault from outside: what the traffic itself does. */
export const LOADS = [
  { name: 'calm', says: 'nothing: what is seen without any fault', limits: LIMITS },
  {
    name: 'aborts',
    says: 'callers abort a third of their calls within 100 ms',
    traffic: { abortRate: 0.33, callersPerKey: 4 },
    limits: LIMITS,
  },
  {
    name: 'crowd',
    says: '2000 waiters on 2 keys, in 4 processes',
    traffic: { apps: 4, keys: 2, callersPerKey: 250, shortMs: 2, waitMs: 10_000 },
    // Goal R14; what scripts do inside comes on top, and grows with the hand-offs, not with those who wait.
    limits: { ...LIMITS, megabytes: 200, scriptsPerCaller: 2 },
  },
];
