import { setTimeout as pause } from 'node:timers/promises';
import { until } from '#until';
import { LEASE_MS, LOOK_MS, SESSION_MS, SESSION_NOTICED_MS, SLACK_MS } from '../constants.mjs';
import { now } from '../now.mjs';
import { Random } from '../random.mjs';
import { cut } from './during.mjs';

/** Connections come back within a second, and the first recheck is at once. */
const BACK_MS = 1000 + LOOK_MS + SLACK_MS;
/** A session that ends with the fault may keep its locks for so long. */
const ENDED_MS = SESSION_MS + SESSION_NOTICED_MS + SLACK_MS;

const othersThan = (member, { store }) => store.cluster.members.filter((other) => other !== member);

/** A member that does not lead. */
async function follower({ store, random }) {
  const leader = await store.cluster.leader();
  return random.pick(store.cluster.members.filter((member) => member !== leader));
}

/** Resolves when another member than this one leads and serves clients. ZooKeeper may need several elections. */
function untilReplaced(leader, world) {
  return until(async () => {
    const asked = othersThan(leader, world).map(async (other) => [
      await other.isLeader().catch(() => false),
      await other.isHealthy().catch(() => false),
    ]);
    return (await Promise.all(asked)).some(([leads, isHealthy]) => leads && isHealthy);
  }, 40_000);
}

async function mend({ store }) {
  store.cluster.links.mend();
  await store.cluster.untilHealthy();
}

async function comeBack({ store }, { member }) {
  await member.restart();
  await store.cluster.untilHealthy();
}

/** One process and this member see none of the others any more, for so many sessions. */
async function split(world, member, sessions) {
  const { random, store } = world;
  const app = random.pick(world.victims);
  const inside = store.networksOf(app.name)[member.id - 1];
  const outwards = store.networksOf(app.name).filter((network) => network !== inside);
  const inwards = store.networksTo(member).filter((network) => network !== inside);
  store.cluster.links.isolate(member.id);
  await cut([...outwards, ...inwards], sessions * SESSION_MS);
  await mend(world);
}

/** The network between members, or between members and processes, and the members themselves. */
export const MEMBER_FAULTS = [
  {
    name: 'cluster-restart',
    says: 'all members are killed and come back at once, with their data',
    stopsStore: true,
    recoverMs: ENDED_MS,
    inject: ({ store }) => store.server.restart(),
  },
  {
    name: 'cluster-down',
    says: 'all members are gone for longer than a session',
    stopsStore: true,
    recoverMs: ENDED_MS,
    async inject({ store, random }) {
      await store.server.kill();
      await pause(random.between(1.2, 2) * SESSION_MS);
      await store.server.restart();
    },
  },
  {
    name: 'cluster-frozen',
    says: 'SIGSTOP of all members, shorter and longer than a session',
    stopsStore: true,
    recoverMs: ENDED_MS,
    async inject({ store, random }) {
      await store.server.pause();
      await pause(random.between(0.2, 1.6) * SESSION_MS);
      await store.server.resume();
      await store.cluster.untilHealthy();
    },
  },
  {
    name: 'leader-killed',
    says: 'kill -9 of the leader, which comes back when another one leads',
    stopsStore: true,
    recoverMs: ENDED_MS,
    after: comeBack,
    async inject(world) {
      const leader = await world.store.cluster.leader();
      await leader.kill();
      await untilReplaced(leader, world);
      return { member: leader };
    },
  },
  {
    name: 'leader-frozen',
    says: 'SIGSTOP of the leader, shorter and longer than a session',
    stopsStore: true,
    recoverMs: ENDED_MS,
    async inject({ store, random }) {
      const leader = await store.cluster.leader();
      await leader.pause();
      await pause(random.between(0.2, 1.6) * SESSION_MS);
      await leader.resume();
      await store.cluster.untilHealthy();
    },
  },
  {
    name: 'leader-cut',
    says: 'the leader is cut off from the others, and still has its clients, until another one leads',
    stopsStore: true,
    recoverMs: ENDED_MS,
    after: mend,
    async inject(world) {
      const leader = await world.store.cluster.leader();
      world.store.cluster.links.isolate(leader.id);
      await untilReplaced(leader, world);
      return undefined;
    },
  },
  {
    name: 'follower-killed',
    says: 'kill -9 of a member that does not lead; it comes back with its data',
    recoverMs: BACK_MS,
    async inject(world) {
      const member = await follower(world);
      await member.kill();
      await pause(world.random.between(0.1, 1.5) * LEASE_MS);
      await comeBack(world, { member });
    },
  },
  {
    name: 'follower-frozen',
    says: 'SIGSTOP of a member that does not lead, shorter and longer than a session',
    recoverMs: BACK_MS + SESSION_MS,
    async inject(world) {
      const member = await follower(world);
      await member.pause();
      await pause(world.random.between(0.2, 1.6) * SESSION_MS);
      await member.resume();
      await world.store.cluster.untilHealthy();
    },
  },
  {
    name: 'follower-cut',
    says: 'a member that does not lead is cut off from the others, and still has its clients',
    recoverMs: BACK_MS + SESSION_MS,
    async inject(world) {
      const member = await follower(world);
      world.store.cluster.links.isolate(member.id);
      await pause(world.random.between(0.3, 1.6) * SESSION_MS);
      await mend(world);
    },
  },
  {
    name: 'minority-side',
    says: 'one process and one member are cut off from all others: its session ends, and the others go on',
    recoverMs: ENDED_MS,
    inject: async (world) => split(world, await follower(world), world.random.between(1.1, 2)),
  },
  {
    name: 'leader-side',
    says: 'one process and the leader are cut off from all others, which have another leader then',
    stopsStore: true,
    recoverMs: ENDED_MS,
    async inject(world) {
      const leader = await world.store.cluster.leader();
      await split(world, leader, world.random.between(1.5, 2.5));
    },
  },
  {
    name: 'members-slow',
    says: 'what the leader says to the others, and they to it, takes 10 to 80 ms each way, changing',
    stopsStore: true,
    recoverMs: BACK_MS,
    async inject({ store, random }) {
      const leader = await store.cluster.leader();
      const lengths = new Random(random.next());
      store.cluster.links.delay(leader.id, () => lengths.between(10, 80));
      await pause(random.between(1000, 3000));
      store.cluster.links.mend();
    },
  },
  {
    name: 'disk-slow',
    says: 'the leader stops for 50 to 300 ms, again and again, as behind a slow disk',
    stopsStore: true,
    recoverMs: BACK_MS,
    async inject({ store, random }) {
      const leader = await store.cluster.leader();
      const endsAt = now() + random.between(1000, 3000);
      while (now() < endsAt) {
        await leader.pause();
        await pause(random.between(50, 300));
        await leader.resume();
        await pause(random.between(20, 150));
      }
    },
  },
];

/** A follower of ZooKeeper answers pings by itself until it has missed its leader for `syncLimit` ticks. */
export const ZOOKEEPER_FAULTS = [
  {
    name: 'minority-side-unnoticed',
    says: 'minority-side, and its member takes 15 s to notice: until then it answers pings',
    settings: { syncLimit: 30 },
    recoverMs: ENDED_MS,
    inject: async (world) => split(world, await follower(world), world.random.between(2, 3)),
  },
];
