import { setTimeout as pause } from 'node:timers/promises';
import { until } from '#until';
import { FAILOVER_GOAL_MS, SLACK_MS } from '../constants.mjs';

/** After the promotion (goal R10). */
const RECOVER_MS = 1500 + SLACK_MS;

/** The master is killed; resolves when the other one has its place, and the old one is back as its replica. */
async function crashMaster({ store }) {
  const [master, before] = [await store.master(), await store.set.masterPort()];
  await master.kill();
  await until(async () => (await store.set.masterPort()) !== before);
  const promotedAt = await store.adminOfMaster();
  await until(async () => (await promotedAt.call('ROLE'))[0] === 'master');
  return master;
}

async function bringBack({ store }, server) {
  await server.restart();
  await store.set.reconnect();
  await store.set.untilReplicating();
}

export const SENTINEL_FAULTS = [
  {
    name: 'sentinel-failover',
    says: 'SENTINEL FAILOVER: the replica takes over while both are well',
    topology: 'sentinel',
    stopsStore: true,
    // The grants of the old master until it steps down are not always replicated.
    losesData: true,
    goalMs: FAILOVER_GOAL_MS,
    recoverMs: RECOVER_MS,
    inject: async ({ store }) => {
      await store.set.failover();
      await store.set.untilReplicating();
    },
  },
  {
    name: 'sentinel-crash',
    says: 'the master is killed, its replica promoted',
    topology: 'sentinel',
    stopsStore: true,
    losesData: true,
    goalMs: FAILOVER_GOAL_MS,
    recoverMs: RECOVER_MS,
    after: bringBack,
    inject: crashMaster,
  },
  {
    name: 'sentinel-unreplicated',
    says: 'the same, when the replica had not heard of the last locks',
    topology: 'sentinel',
    stopsStore: true,
    losesData: true,
    goalMs: FAILOVER_GOAL_MS,
    recoverMs: RECOVER_MS,
    after: bringBack,
    async inject(world) {
      await world.store.set.cutReplication();
      await pause(world.random.between(200, 700));
      return crashMaster(world);
    },
  },
  {
    name: 'sentinel-acks',
    says: 'the same, with minReplicaAcks: 1',
    topology: 'sentinel',
    traffic: { store: { minReplicaAcks: 1 } },
    // Nothing counts as granted before the new master has a replica.
    stopsStore: true,
    recoverMs: RECOVER_MS,
    async inject(world) {
      await world.store.set.cutReplication();
      await pause(world.random.between(200, 700));
      await bringBack(world, await crashMaster(world));
    },
  },
];
