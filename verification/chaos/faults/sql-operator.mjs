import { setTimeout as pause } from 'node:timers/promises';
import { now } from '../now.mjs';
import { BACK_GOAL_MS, GOAL_MS, LEASE_MS, LONG_LEASE_MS, LOOK_MS, SLACK_MS } from '../constants.mjs';
import { serviceConnections } from './service-connections.mjs';

const RECOVER_MS = LOOK_MS + SLACK_MS;
const BACK_MS = 1000 + SLACK_MS;

/** An operator changes the database while the application runs. */
export const SQL_OPERATOR_FAULTS = [
  {
    name: 'backend-terminated',
    says: 'the operator ends connections of the service, all or some',
    traffic: { leaseMs: LONG_LEASE_MS },
    goalMs: GOAL_MS,
    recoverMs: RECOVER_MS,
    async inject({ store, random }) {
      const connections = await serviceConnections(store);
      const isForAll = random.chance(0.5);
      const ended = (await connections.list()).filter(() => isForAll || random.chance(0.4));
      await connections.end(ended);
      await connections.close();
    },
  },
  {
    name: 'connections-full',
    says: 'max_connections is used up while the service must connect anew',
    stopsStore: true,
    goalMs: BACK_GOAL_MS,
    recoverMs: BACK_MS,
    async inject({ store, random }) {
      const connections = await serviceConnections(store);
      const ids = await connections.list();
      const fillers = await fill(store);
      await connections.end(ids);
      fillers.push(...(await fill(store)));
      await pause(random.between(300, 2500));
      await Promise.all(fillers.map((session) => session.end()));
      await connections.close();
    },
  },
  {
    name: 'table-dropped',
    says: 'DROP TABLE of the lock table, or DELETE of all its rows',
    losesData: true,
    recoverMs: RECOVER_MS,
    async inject({ store, random }) {
      await store.run(random.pick(['DROP TABLE nest_lock', 'DELETE FROM nest_lock']));
    },
  },
  {
    name: 'rows-locked',
    says: 'a transaction of somebody else keeps the rows of all locks locked',
    stopsStore: true,
    goalMs: GOAL_MS,
    recoverMs: RECOVER_MS,
    async inject({ store, random }) {
      const session = await store.session();
      await session.query('BEGIN');
      await session.query('SELECT name FROM nest_lock FOR UPDATE');
      await pause(random.between(300, 2500));
      await session.query('ROLLBACK');
      await session.end();
    },
  },
  {
    name: 'deadlocks',
    says: 'transactions of others lock the rows in two orders, again and again: deadlocks',
    stopsStore: true,
    recoverMs: LEASE_MS + SLACK_MS,
    async inject({ store, random }) {
      const endsAt = now() + random.between(1000, 2500);
      await Promise.all(['ASC', 'DESC'].map((order) => lockAgain(store, order, endsAt)));
    },
  },
];

/** As many connections as the server takes. */
async function fill(store) {
  const sessions = [];
  for (;;) {
    try {
      sessions.push(await store.serviceSession());
    } catch {
      return sessions;
    }
  }
}

/** Locks all rows one by one. A deadlock rolls it back. */
async function lockAgain(store, order, endsAt) {
  const session = await store.session();
  while (now() < endsAt) {
    try {
      await session.query('BEGIN');
      await session.query(`SELECT name FROM nest_lock ORDER BY name ${order} FOR UPDATE`);
      await pause(5);
    } catch {
      // It is the victim of a deadlock.
    }
    await session.query('ROLLBACK');
    await pause(20);
  }
  await session.end();
}
