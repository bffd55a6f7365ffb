import { quorumStore } from '../../../../libs/distributed-lock/src/stores/quorum/quorum.store.js';
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
    return { commandTimeoutMs: Math.min(dice.pick([50, 100, 250]), Math.floor(watchdogTimeoutMs / 6)) };
  },

  open(world, options) {
    routeGlobals(world.kernel);
    const hosts = NODES.map(
      (name) => new RedisHost(name, world, { afterCrash: 'everything', replicas: 0, replicaLagMs: 0 }),
    );
    return {
      servers: hosts,
      storeFor: (process) => quorumStore(hosts.map((host) => redisStore(host.targetFor(process), options))),
      leftovers: () => hosts.flatMap((host) => host.leftovers()),
    };
  },
};
