import { setTimeout as pause } from 'node:timers/promises';
import { BACK_GOAL_MS, LEASE_MS, SLACK_MS } from '../constants.mjs';

/** Connections come back within a second (goal R9), and the first recheck is at once. */
const BACK_MS = 1000 + SLACK_MS;

export const SQL_SERVER_FAULTS = [
  {
    name: 'server-restart',
    says: 'the server is killed and comes back at once, with its data',
    stopsStore: true,
    // A crash may undo a release that it has answered. Then the lock ends with its lease.
    recoverMs: LEASE_MS + SLACK_MS,
    inject: ({ store }) => store.server.restart(),
  },
  {
    name: 'server-down',
    says: 'the server is gone for longer than a lease',
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
    says: 'SIGSTOP of the server, shorter and longer than a lease',
    stopsStore: true,
    recoverMs: LEASE_MS + SLACK_MS,
    async inject({ store, random }) {
      await store.server.pause();
      await pause(random.between(0.2, 1.6) * LEASE_MS);
      await store.server.resume();
    },
  },
];
