import { setTimeout as pause } from 'node:timers/promises';
import { LEASE_MS, LOOK_MS, SLACK_MS } from '../constants.mjs';
import { ClockShift, missingShift } from './clock-shift.mjs';
import { CONNECTION_FAULTS } from './connections.mjs';
import { cut } from './during.mjs';
import { LOADS } from './load.mjs';
import { NETWORK_FAULTS } from './network.mjs';
import { processFaults } from './processes.mjs';

/** A key may lie idle this long at any time, because callers do not notice that a minority is away. */
const UNNOTICED_MS = LOOK_MS + SLACK_MS;
const KEEPS_DATA = ['--appendonly', 'yes', '--appendfsync', 'always'];

/**
 * Something happens to one node of the three, of which no lock and no call may notice anything.
 *
 * @param {string} name @param {string} says @param {(world: any, node: number) => Promise<unknown>} hit
 * @param {Partial<import('../index.d.mts').Kind>} [more]
 */
function toOneNode(name, says, hit, more) {
  return {
    name,
    says,
    topology: 'quorum',
    sparesMajority: true,
    recoverMs: UNNOTICED_MS,
    inject: (world) => hit(world, world.random.pick(nodesOf(world))),
    ...more,
  };
}

const nodesOf = ({ store }) => [...store.servers.keys()];

/** A node that has forgotten its leases comes back when they are over, as docs/quorum.md asks for. */
async function rejoin({ store, random, traffic }, node) {
  await pause(random.between(1.1, 1.6) * traffic.leaseMs);
  await store.servers[node].restart();
}

/** A kind that is the same for one Redis and for several. */
const likewise = (kinds, ...names) =>
  kinds
    .filter(({ name }) => names.includes(name))
    .map((kind) => ({
      ...kind,
      name: `quorum-${kind.name}`,
      says: `${kind.says}; quorum`,
      topology: 'quorum',
    }));

export const QUORUM_FAULTS = [
  ...likewise(LOADS, 'calm'),
  toOneNode(
    'quorum-node-restart',
    'one node of three is killed and comes back with its data',
    async ({ store, random }, node) => {
      await store.servers[node].kill();
      await pause(random.between(0.1, 1.5) * LEASE_MS);
      await store.servers[node].restart();
    },
    { serverArgs: KEEPS_DATA },
  ),
  toOneNode(
    'quorum-node-forgets',
    'one node of three is killed and comes back empty, when the leases that it forgot are over',
    async (world, node) => {
      await world.store.servers[node].kill();
      await rejoin(world, node);
    },
  ),
  toOneNode(
    'quorum-node-frozen',
    'SIGSTOP of one node of three, shorter and longer than a lease',
    async ({ store, random }, node) => {
      await store.servers[node].pause();
      await pause(random.between(0.2, 1.6) * LEASE_MS);
      await store.servers[node].resume();
    },
  ),
  toOneNode(
    'quorum-node-cut',
    'the network to one node of three swallows everything for a while',
    ({ store, random }, node) => cut(store.networksTo(node), random.between(0.3, 2) * LEASE_MS),
  ),
  toOneNode(
    'quorum-node-half-open',
    'connections to one node of three swallow everything for good; new ones are fine',
    async ({ store }, node) => {
      for (const { open } of store.networksTo(node)) for (const link of open) link.vanish();
    },
  ),
  toOneNode(
    'quorum-views',
    'each process is cut off from another node: no two have the same majority',
    async ({ store, random, running }, node) => {
      const networks = running.map(
        ({ name }, i) => store.networksOf(name)[(node + i) % store.servers.length],
      );
      await cut(networks, random.between(0.3, 1.6) * LEASE_MS);
    },
    // Whoever is inside when it begins cannot give back the vote of a node that the others need; they look for its end.
    { recoverMs: LEASE_MS + LOOK_MS + SLACK_MS },
  ),
  {
    name: 'quorum-node-clock',
    says: 'the time of day of one node of three jumps to and fro, by up to ten leases',
    topology: 'quorum',
    missing: missingShift,
    shift: () => new ClockShift(),
    sparesMajority: true,
    recoverMs: UNNOTICED_MS,
    async inject({ store, random }) {
      store.shift.set(random.between(-10, 10) * LEASE_MS);
      await pause(random.between(300, 1500));
    },
  },
  {
    name: 'quorum-two-of-five',
    says: 'two nodes of five are killed one after the other, and come back empty, late',
    topology: 'quorum',
    nodes: 5,
    sparesMajority: true,
    recoverMs: UNNOTICED_MS,
    async inject(world) {
      const { servers } = world.store;
      const first = world.random.pick(nodesOf(world));
      const second = (first + world.random.pick([1, 2, 3, 4])) % servers.length;
      await servers[first].kill();
      await pause(world.random.between(0.2, 1.2) * LEASE_MS);
      await servers[second].kill();
      await rejoin(world, first);
      await rejoin(world, second);
    },
  },
  {
    name: 'quorum-down',
    says: 'two nodes of three are gone for longer than a lease, and come back with their data',
    topology: 'quorum',
    serverArgs: KEEPS_DATA,
    stopsStore: true,
    recoverMs: LEASE_MS + SLACK_MS,
    async inject({ store, random }) {
      const spared = random.pick(nodesOf({ store }));
      const hit = store.servers.filter((_, node) => node !== spared);
      await Promise.all(hit.map((server) => server.kill()));
      await pause(random.between(1.2, 2) * LEASE_MS);
      await Promise.all(hit.map((server) => server.restart()));
    },
  },
  {
    name: 'quorum-amnesia',
    says: 'two nodes of three restart at once, with nothing of what they knew',
    topology: 'quorum',
    losesData: true,
    stopsStore: true,
    // The third node may have a lease that nobody knows any more.
    recoverMs: LEASE_MS + SLACK_MS,
    async inject(world) {
      const spared = world.random.pick(nodesOf(world));
      await Promise.all(
        nodesOf(world)
          .filter((node) => node !== spared)
          .map((node) => world.store.servers[node].restart()),
      );
    },
  },
  ...likewise(processFaults({ unreachedMs: 0 }), 'crash-holder', 'freeze-holder', 'shutdown'),
  ...likewise(CONNECTION_FAULTS, 'reset', 'late-requests'),
  ...likewise(NETWORK_FAULTS, 'blackhole'),
];
