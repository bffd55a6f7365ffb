import { GOAL_MS } from '../constants.mjs';

const LIMITS = { idleMs: GOAL_MS };

export const SQL_LOADS = [
  {
    name: 'many-processes',
    says: '16 processes on one key: each is served as often as the others',
    traffic: { apps: 16, keys: 1, shortMs: 2 },
    limits: { jain: 0.95 },
  },
  {
    name: 'long-queue',
    says: '90 waiters in strict order on one key: the document is longer than a notification may be',
    traffic: { keys: 1, callersPerKey: 30, shortMs: 2, waitMs: 10_000, workload: 'fair' },
    // In the calm at the end each waiter has its turn.
    recoverMs: 5000,
    limits: LIMITS,
  },
];

/**
 * Servers whose default isolation is stricter than the library needs.
 *
 * @param {string} setting its name
 */
export function isolations(setting) {
  return ['serializable', 'repeatable-read'].map((level) => ({
    name: level,
    says: `the default isolation of the server is ${level.replace('-', ' ').toUpperCase()}`,
    settings: { [setting]: setting.startsWith('default') ? level.replace('-', ' ') : level.toUpperCase() },
    traffic: { apps: 4, callersPerKey: 4 },
    limits: LIMITS,
  }));
}
