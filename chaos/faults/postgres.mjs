import { setTimeout as pause } from 'node:timers/promises';
import { whyMissing } from '#servers';
import { BACK_GOAL_MS, FAILOVER_GOAL_MS, GOAL_MS, LEASE_MS, LOOK_MS, SLACK_MS } from '../constants.mjs';
import { isolations } from './sql-loads.mjs';

const RECOVER_MS = LOOK_MS + SLACK_MS;
/** After the promotion (goal R10). A release that was answered may be undone, as by a crash. */
const FAILOVER_MS = LEASE_MS + 1000 + SLACK_MS;

/** The primary is killed, and its standby takes its place. @returns the old primary */
async function crashPrimary({ store }) {
  const old = store.server;
  await old.kill();
  await store.failOver();
  return old;
}

const failover = {
  topology: 'standby',
  stopsStore: true,
  goalMs: FAILOVER_GOAL_MS,
  recoverMs: FAILOVER_MS,
  after: ({ store }, old) => store.replace(old),
};

export const POSTGRES_FAULTS = [
  ...isolations('default_transaction_isolation'),
  {
    ...failover,
    name: 'failover',
    says: 'the primary is killed, and its standby promoted',
    losesData: true,
    inject: crashPrimary,
  },
  {
    ...failover,
    name: 'failover-unreplicated',
    says: 'the same, when the standby had not heard of the last locks',
    losesData: true,
    async inject(world) {
      await world.store.standby.pause();
      await pause(world.random.between(200, 700));
      const old = world.store.server;
      await old.kill();
      await world.store.standby.resume();
      await world.store.failOver();
      return old;
    },
  },
  {
    ...failover,
    name: 'failover-synchronous',
    says: 'the same with a synchronous standby: nothing is lost',
    synchronous: true,
    inject: crashPrimary,
  },
  {
    name: 'read-only',
    says: 'the server takes no writes, as a primary that was demoted',
    stopsStore: true,
    goalMs: GOAL_MS,
    recoverMs: RECOVER_MS,
    async inject({ store, random }) {
      const set = async (value) => {
        await store.run(`ALTER SYSTEM SET default_transaction_read_only = ${value}`);
        await store.run('SELECT pg_reload_conf()');
      };
      await set('on');
      try {
        await pause(random.between(300, 2500));
      } finally {
        await set('off');
      }
    },
  },
  {
    name: 'pgbouncer',
    says: 'PgBouncer in transaction mode before the server; it is killed and comes back',
    missing: () => whyMissing('pgbouncer'),
    topology: 'pgbouncer',
    stopsStore: true,
    goalMs: BACK_GOAL_MS,
    recoverMs: LEASE_MS + SLACK_MS,
    inject: ({ store }) => store.pooler.restart(),
  },
];
