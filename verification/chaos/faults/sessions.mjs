import { setTimeout as pause } from 'node:timers/promises';
import { GOAL_MS, LONG_LEASE_MS, LOOK_MS, SESSION_MS, SESSION_NOTICED_MS, SLACK_MS } from '../constants.mjs';
import { now } from '../now.mjs';
import { SQL_CONNECTION_FAULTS } from './sql-connections.mjs';
import { SQL_LOADS } from './sql-loads.mjs';

const RECOVER_MS = LOOK_MS + SLACK_MS;
const ENDED_MS = SESSION_MS + SESSION_NOTICED_MS + SLACK_MS;

const named = (kinds, ...names) => kinds.filter(({ name }) => names.includes(name));

export const SESSION_LOADS = [
  ...named(SQL_LOADS, 'many-processes'),
  {
    ...named(SQL_LOADS, 'long-queue')[0],
    says: '90 waiters in strict order on one key',
  },
];

/** A later end of what the session of a dead process held. */
export const SESSION_CONNECTION_FAULTS = named(
  SQL_CONNECTION_FAULTS,
  'crash-handoff',
  'crash-first',
  'late-takes',
).map((kind) => (kind.recoverMs > LOOK_MS + SLACK_MS ? { ...kind, recoverMs: ENDED_MS } : kind));

/** An operator, by hand or by program, changes what the store has written. */
export const SESSION_OPERATOR_FAULTS = [
  {
    name: 'document-deleted',
    says: 'somebody deletes the documents of all keys',
    losesData: true,
    recoverMs: RECOVER_MS,
    inject: ({ store }) => store.deleteDocuments(),
  },
  {
    name: 'session-ended',
    says: 'somebody ends the sessions of processes: revokes leases, or deletes what shows that a session is there',
    losesData: true,
    recoverMs: ENDED_MS,
    async inject({ store, random }) {
      const isForAll = random.chance(0.3);
      await store.endSessions(() => isForAll || random.chance(0.4));
    },
  },
  {
    name: 'forced-release',
    says: 'an operator forces releases, between any two steps of the processes',
    losesData: true,
    recoverMs: RECOVER_MS,
    async inject({ store, random, keys }) {
      const service = await store.service();
      const endsAt = now() + random.between(300, 1500);
      while (now() < endsAt) {
        await service.forceRelease(random.pick(keys));
        await pause(random.between(0, 100));
      }
    },
  },
];

export const ETCD_FAULTS = [
  {
    name: 'compaction',
    says: 'all old revisions are compacted, again and again',
    traffic: { leaseMs: LONG_LEASE_MS },
    goalMs: GOAL_MS,
    recoverMs: RECOVER_MS,
    async inject({ store, random }) {
      const endsAt = now() + random.between(300, 1500);
      while (now() < endsAt) await store.compact();
    },
  },
  {
    name: 'compacted-while-frozen',
    says: 'SIGSTOP of a process; what its watch has not heard is compacted meanwhile',
    traffic: { leaseMs: LONG_LEASE_MS },
    recoverMs: LONG_LEASE_MS + SESSION_NOTICED_MS,
    async inject(world) {
      const app = await world.holder();
      app.signal('SIGSTOP');
      for (const network of world.store.networksOf(app.name)) for (const link of network.open) link.reset();
      await pause(world.random.between(300, 1500));
      await world.store.compact();
      app.signal('SIGCONT');
      return { fault: { app: app.name, freezes: true } };
    },
  },
  {
    name: 'no-space',
    says: 'NOSPACE: the members take no more writes until the alarm is taken back',
    stopsStore: true,
    recoverMs: ENDED_MS,
    async inject({ store, random }) {
      await store.setNoSpace(true);
      await pause(random.between(300, 2500));
      await store.setNoSpace(false);
    },
  },
];
