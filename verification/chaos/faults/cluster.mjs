import { until } from '#until';
import { FAILOVER_GOAL_MS, LEASE_MS, SLACK_MS } from '../constants.mjs';

const RECOVER_MS = 1500 + SLACK_MS;

/** The indices of the master and the replica of the slot of a key chosen at random. */
async function pairOf({ store, random, keys }) {
  const slot = await store.admins[0].cluster('KEYSLOT', random.pick(keys));
  const roles = await store.roles();
  const nodes = await Promise.all(store.admins.map((admin) => admin.cluster('NODES')));
  const lines = nodes.map(
    (text) =>
      text
        .split('\n')
        .find((line) => line.includes('myself'))
        ?.split(' ') ?? [],
  );
  const master = lines.findIndex((parts, i) => roles[i] === 'master' && hasSlot(parts.slice(8), slot));
  const replica = lines.findIndex((parts) => parts[3] === lines[master][0]);
  return { slot, master, replica, ids: lines.map(([id]) => id) };
}

function hasSlot(ranges, slot) {
  return ranges.some((range) => {
    const [from, to = from] = range.split('-').map(Number);
    return from <= slot && slot <= to;
  });
}

const isMaster = (store, index) =>
  until(async () => (await store.admins[index].call('ROLE'))[0] === 'master');

async function untilWhole({ store }) {
  await until(async () => {
    const infos = await Promise.all(store.admins.map((admin) => admin.cluster('INFO')));
    const links = await Promise.all(store.admins.map((admin) => admin.info('replication')));
    const isLinked = links.every((info) => info.includes('role:master') || info.includes('link_status:up'));
    return isLinked && infos.every((info) => info.includes('cluster_state:ok'));
  });
}

export const CLUSTER_FAULTS = [
  {
    name: 'cluster-failover',
    says: 'CLUSTER FAILOVER: a replica takes over from its master, by agreement',
    topology: 'cluster',
    stopsStore: true,
    goalMs: FAILOVER_GOAL_MS,
    recoverMs: RECOVER_MS,
    after: untilWhole,
    async inject(world) {
      const { replica } = await pairOf(world);
      await world.store.admins[replica].cluster('FAILOVER');
      await isMaster(world.store, replica);
    },
  },
  {
    name: 'cluster-crash',
    says: 'a master is killed, its replica takes over',
    topology: 'cluster',
    stopsStore: true,
    losesData: true,
    goalMs: FAILOVER_GOAL_MS,
    recoverMs: RECOVER_MS,
    async after(world, server) {
      await server.restart();
      await untilWhole(world);
    },
    async inject(world) {
      const { master, replica } = await pairOf(world);
      const server = world.store.cluster.servers[master];
      await server.kill();
      await isMaster(world.store, replica);
      return server;
    },
  },
  {
    name: 'cluster-migration',
    says: 'the slot of a lock moves to another master, key by key',
    topology: 'cluster',
    stopsStore: true,
    recoverMs: LEASE_MS + SLACK_MS,
    async inject(world) {
      const { admins, cluster, roles } = world.store;
      const { slot, master, ids } = await pairOf(world);
      const others = (await roles()).flatMap((role, i) => (role === 'master' && i !== master ? [i] : []));
      const target = world.random.pick(others);
      await admins[target].call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', ids[master]);
      await admins[master].call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', ids[target]);
      const { port } = cluster.servers[target];
      for (;;) {
        const names = await admins[master].call('CLUSTER', 'GETKEYSINSLOT', slot, 1);
        if (names.length === 0) break;
        await admins[master].call('MIGRATE', '127.0.0.1', port, '', 0, 1000, 'KEYS', names[0]);
      }
      for (const index of [target, master, ...others]) {
        await admins[index].call('CLUSTER', 'SETSLOT', slot, 'NODE', ids[target]);
      }
    },
  },
];
