import { setTimeout as pause } from 'node:timers/promises';
import { BACK_GOAL_MS, LEASE_MS, SLACK_MS } from '../constants.mjs';

/** Connections come back within a second (goal R9), and the first look is at once. */
const BACK_MS = 1000 + SLACK_MS;
const KEEPS_DATA = ['--appendonly', 'yes', '--appendfsync', 'always'];

export const SERVER_FAULTS = [
  {
    name: 'restart-empty',
    says: 'Redis is killed and comes back without its data',
    losesData: true,
    stopsStore: true,
    goalMs: BACK_GOAL_MS,
    recoverMs: BACK_MS,
    inject: ({ store }) => store.server.restart(),
  },
  {
    name: 'restart-aof',
    says: 'Redis is killed and comes back with its data (appendonly)',
    serverArgs: KEEPS_DATA,
    stopsStore: true,
    // A lock that was held meanwhile may be its killed connection's; it ends with its lease.
    recoverMs: LEASE_MS + SLACK_MS,
    inject: ({ store }) => store.server.restart(),
  },
  {
    name: 'server-down',
    says: 'Redis is gone for longer than a lease, and comes back with its data',
    serverArgs: KEEPS_DATA,
    stopsStore: true,
    goalMs: BACK_GOAL_MS,
    recoverMs: BACK_MS,
    async inject({ store, random }) {
      await store.server.kill();
      await pause(random.between(1.2, 2) * LEASE_MS);
      await store.server.restart();
    },
  },
  {
    name: 'server-frozen',
    says: 'SIGSTOP of Redis, shorter and longer than a lease',
    stopsStore: true,
    recoverMs: LEASE_MS + SLACK_MS,
    async inject({ store, random }) {
      await store.server.pause();
      await pause(random.between(0.2, 1.6) * LEASE_MS);
      await store.server.resume();
    },
  },
];
