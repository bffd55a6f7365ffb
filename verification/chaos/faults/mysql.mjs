import { setTimeout as pause } from 'node:timers/promises';
import { BACK_GOAL_MS, GOAL_MS, LONG_LEASE_MS, LOOK_MS, SLACK_MS } from '../constants.mjs';
import { isolations } from './sql-loads.mjs';

const RECOVER_MS = LOOK_MS + SLACK_MS;

export const MYSQL_FAULTS = [
  ...isolations('transaction_isolation'),
  {
    name: 'wait-timeout',
    says: 'the server ends connections that were idle for a second; callers pause, many ask once',
    settings: { wait_timeout: 1 },
    traffic: { leaseMs: LONG_LEASE_MS, callersPerKey: 1, waitMs: 0, pauseMs: 5000 },
    limits: { idleMs: GOAL_MS },
  },
];

/** In MariaDB as it runs here everybody is a superuser, who may write all the same. */
export const READ_ONLY = [
  {
    name: 'read-only',
    says: 'the server takes no writes: super_read_only',
    stopsStore: true,
    // The store looks for another server behind the same address: it connects anew.
    goalMs: BACK_GOAL_MS,
    recoverMs: RECOVER_MS,
    async inject({ store, random }) {
      await store.run('SET GLOBAL super_read_only = ON');
      try {
        await pause(random.between(300, 2500));
      } finally {
        await store.run('SET GLOBAL read_only = OFF');
      }
    },
  },
];
