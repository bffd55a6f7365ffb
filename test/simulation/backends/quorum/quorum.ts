import { quorumStore } from '../../../../libs/distributed-lock/src/stores/quorum/quorum.store.js';
import { ownerOf } from '../../../../libs/distributed-lock/src/stores/quorum/owner-ids.js';
import { redisStore } from '../../../../libs/distributed-lock/src/stores/redis/redis.store.js';
import { RedisHost } from '../redis/redis-host.js';
import { REDIS_KINDS } from '../redis/kinds.js';
import { routeGlobals } from '../../kernel/globals.js';
import type { Backend } from '../backend.js';

const NODES = ['redis-1', 'redis-2', 'redis-3'];

/** Three independent Redis servers, each with its own clock and its own crashes. */
export const quorum: Backend = {
  name: 'quorum',
  kinds: REDIS_KINDS,
  commandsPerCall: 6,
  serverCount: NODES.length,
  cannot: ['permits'],

  drawOptions(dice, watchdogTimeoutMs) {
    const commandTimeoutMs = Math.min(dice.pick([50, 100, 250]), Math.floor(watchdogTimeoutMs / 6));
    // Tokens follow the clocks of the nodes.
    const aheadMs = NODES.map(() => (dice.happens(0.5) ? 0 : dice.scale(1, 5000)));
    return { commandTimeoutMs, aheadMs };
  },

  open(world, { commandTimeoutMs, aheadMs = [] }) {
    routeGlobals(world.kernel);
    const hosts = NODES.map(
      (name) => new RedisHost(name, world, { afterCrash: 'everything', replicas: 0, replicaLagMs: 0 }),
    );
    hosts.forEach((host, i) => host.setClock((aheadMs as readonly number[])[i] ?? 0));
    return {
      servers: hosts,
      storeFor: (process) =>
        quorumStore(hosts.map((host) => redisStore(host.targetFor(process), { commandTimeoutMs }))),
      holdersOf: (key) => heldByMost(hosts.map((host) => host.holdersOf(key))),
      leftovers: () => hosts.flatMap((host) => host.leftovers()),
    };
  },
};

/** For how long a majority of the nodes keeps the lock of each owner. What fewer nodes keep is somebody's who must give it back. */
function heldByMost(nodes: readonly ReadonlyMap<string, number>[]): ReadonlyMap<string, number> {
  const attempts = nodes.map(
    (node) => new Map([...node].map(([attempt, leftMs]) => [ownerOf(attempt), leftMs])),
  );
  const owners = new Set(attempts.flatMap((it) => [...it.keys()]));
  const majority = Math.floor(nodes.length / 2) + 1;
  const leftOf = (owner: string): number =>
    attempts.map((it) => it.get(owner) ?? 0).toSorted((a, b) => b - a)[majority - 1] ?? 0;
  const longestOf = (owner: string): number => Math.max(...attempts.map((it) => it.get(owner) ?? 0));
  return new Map(
    [...owners].flatMap((owner) => [
      [owner, leftOf(owner)],
      [`${owner} at some node`, longestOf(owner)],
    ]),
  );
}
