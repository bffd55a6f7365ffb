import { setTimeout as pause } from 'node:timers/promises';
import { BACK_GOAL_MS, GOAL_MS, LEASE_MS, LONG_LEASE_MS, LOOK_MS, SLACK_MS } from '../constants.mjs';

/** A server that answers again is found by the next renewal or look. */
const RECOVER_MS = LOOK_MS + SLACK_MS;

/** Commands that an operator sends to Redis. */
export const OPERATOR_FAULTS = [
  {
    name: 'server-stalled',
    says: 'DEBUG SLEEP: Redis is busy with itself',
    stopsStore: true,
    recoverMs: LEASE_MS + SLACK_MS,
    inject: ({ store, random }) => store.admin.call('DEBUG', 'SLEEP', random.between(0.3, 2).toFixed(2)),
  },
  {
    name: 'client-pause',
    says: 'CLIENT PAUSE, of all commands or of writes',
    stopsStore: true,
    recoverMs: LEASE_MS + SLACK_MS,
    async inject({ store, random }) {
      const ms = Math.round(random.between(300, 2000));
      await store.admin.call('CLIENT', 'PAUSE', ms, random.pick(['ALL', 'WRITE']));
      await pause(ms);
    },
  },
  {
    name: 'busy',
    says: 'BUSY: a script that does not end, until SCRIPT KILL',
    serverArgs: ['--busy-reply-threshold', '50'],
    stopsStore: true,
    goalMs: GOAL_MS,
    recoverMs: RECOVER_MS,
    async inject({ store, random }) {
      const other = store.admin.duplicate();
      const ended = other.eval('while true do end', 0).catch(() => undefined);
      await pause(random.between(300, 2000));
      while ((await store.admin.script('KILL').catch(() => 'busy')) !== 'OK') await pause(20);
      await ended;
      other.disconnect();
    },
  },
  {
    name: 'script-flush',
    says: 'SCRIPT FLUSH',
    traffic: { leaseMs: LONG_LEASE_MS },
    goalMs: GOAL_MS,
    recoverMs: RECOVER_MS,
    inject: ({ store }) => store.admin.script('FLUSH'),
  },
  {
    name: 'client-kill',
    says: 'CLIENT KILL of all connections, or of those that listen',
    traffic: { leaseMs: LONG_LEASE_MS },
    goalMs: GOAL_MS,
    recoverMs: RECOVER_MS,
    inject: ({ store, random }) =>
      store.admin.call('CLIENT', 'KILL', 'TYPE', random.pick(['normal', 'pubsub']), 'SKIPME', 'yes'),
  },
  {
    name: 'loading',
    says: 'LOADING: Redis reads its data again, slowly',
    serverArgs: ['--loading-process-events-interval-bytes', '1024'],
    stopsStore: true,
    goalMs: BACK_GOAL_MS,
    recoverMs: LEASE_MS + SLACK_MS,
    async inject({ store, random }) {
      await store.admin.call('DEBUG', 'POPULATE', 1000, 'filler', 100);
      await store.admin.config('SET', 'key-load-delay', Math.round(random.between(300, 1500)));
      await store.admin.call('DEBUG', 'RELOAD');
      await store.admin.config('SET', 'key-load-delay', 0);
    },
  },
];
