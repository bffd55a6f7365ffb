import { setTimeout as pause } from 'node:timers/promises';
import { whyMissing } from '#servers';
import { BACK_GOAL_MS, FAILOVER_GOAL_MS, GOAL_MS, LEASE_MS, LOOK_MS, SLACK_MS } from '../constants.mjs';
import { now } from '../now.mjs';
import { isolations } from './sql-loads.mjs';

const RECOVER_MS = LOOK_MS + SLACK_MS;
/** After the promotion (goal R10). A release that was answered may be undone, as by a crash. */
const FAILOVER_MS = LEASE_MS + 1000 + SLACK_MS;

/**
 * Kills the primary, and promotes its standby. Every second time the new primary gets a standby of its own instead.
 *
 * @param {any} world @param {(world: any) => Promise<unknown>} [beforeCrash] @param {(world: any) => Promise<unknown>} [afterCrash]
 */
async function failOver(world, beforeCrash, afterCrash) {
  const { store } = world;
  if (!store.standby) {
    await store.addStandby();
    return { fault: { kind: 'standby-added', goalMs: undefined } };
  }
  await beforeCrash?.(world);
  await store.server.kill();
  await afterCrash?.(world);
  await store.failOver();
  return undefined;
}

/** Each as the library writes it into a notification. */
const ROWS = `SELECT json_build_array(name, version, state, last, at, notes,
  (extract(epoch FROM statement_timestamp()) * 1e6)::bigint)::text AS row FROM nest_lock`;

/** Notifies the clients of all holders. */
function notifyAll(session, payload) {
  return session.query(`SELECT pg_notify('nest_lock_' || client, '${payload.replaceAll("'", "''")}')
    FROM nest_lock, unnest(string_to_array(clients, ',')) AS client WHERE client <> ''`);
}

const failover = {
  topology: 'standby',
  stopsStore: true,
  goalMs: FAILOVER_GOAL_MS,
  recoverMs: FAILOVER_MS,
};

export const POSTGRES_FAULTS = [
  ...isolations('default_transaction_isolation'),
  {
    ...failover,
    name: 'failover',
    says: 'the primary is killed, and its standby promoted',
    losesData: true,
    inject: (world) => failOver(world),
  },
  {
    ...failover,
    name: 'failover-unreplicated',
    says: 'the same, when the standby had not heard of the last locks',
    losesData: true,
    inject: (world) =>
      failOver(
        world,
        async ({ store, random }) => {
          await store.standby.pause();
          await pause(random.between(200, 700));
        },
        ({ store }) => store.standby.resume(),
      ),
  },
  {
    ...failover,
    name: 'failover-synchronous',
    says: 'the same with a synchronous standby: nothing is lost',
    synchronous: true,
    inject: (world) => failOver(world),
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
    name: 'forged-notifications',
    says: 'somebody notifies the clients of old rows, of names and of nonsense',
    sparesMajority: true,
    recoverMs: RECOVER_MS,
    async inject({ store, random, keys }) {
      const session = await store.session();
      const nonsense = ['', 'nonsense', '[]', '{}', '[1]', '["nobody"]', `["${keys[0]}",1,2,3]`];
      const endsAt = now() + random.between(500, 1500);
      const old = [];
      while (now() < endsAt) {
        const rows = await session.query(ROWS);
        old.push(...rows.map(({ row }) => row));
        for (const payload of [...nonsense, ...old.slice(-30)]) await notifyAll(session, payload);
        await pause(20);
      }
      await session.end();
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
