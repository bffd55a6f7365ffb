import { redisStore } from '../../../../libs/distributed-lock/src/stores/redis/redis.store.js';
import type { RedisStoreOptions } from '../../../../libs/distributed-lock/src/stores/redis/redis.options.js';
import { RedisHost, type HostOptions } from './redis-host.js';
import { REDIS_KINDS } from './kinds.js';
import { routeGlobals } from '../../kernel/globals.js';
import type { Backend, StoreOptions } from '../backend.js';

/** Options of the store, and of the server below it. */
type Options = StoreOptions & RedisStoreOptions & HostOptions;

/** One Redis server: the real store and the real ioredis over a simulated network, the real scripts on a model of the server. */
export const redis = redisNotedBy();

/** The same. @param onCommand is told what the server is sent */
export function redisNotedBy(onCommand?: HostOptions['onCommand']): Backend {
  return {
    name: 'redis',
    kinds: REDIS_KINDS,
    commandsPerCall: 3,
    serverCount: 1,

    // The reply that a release waits for, the release, and the notification; as much again for a waiter that has left.
    handOffMs({ least, spread }, { replicaTimeoutMs = 0, replicaLagMs = 0 }) {
      // A grant that the replicas do not have in time is given back, and asked for again.
      if (Number(replicaLagMs) > Number(replicaTimeoutMs)) return Infinity;
      return 6 * (least + spread) + 2 * Number(replicaTimeoutMs);
    },

    drawOptions(dice, watchdogTimeoutMs) {
      const commandTimeoutMs = Math.min(dice.pick([100, 250, 500]), Math.floor(watchdogTimeoutMs / 3));
      const server = { afterCrash: 'everything', replicas: 0, replicaLagMs: 0 };
      const kind = dice.random();
      if (kind < 0.6) return { commandTimeoutMs, ...server };
      if (kind < 0.7) return { commandTimeoutMs, ...server, sharedTokens: true };
      if (kind < 0.85) {
        // Twice the longest lease that a program asks for, as it may be extended to that.
        const restartGuardMs = 2 * Math.max(watchdogTimeoutMs, 5000);
        return { commandTimeoutMs, ...server, restartGuardMs, afterCrash: 'nothing' };
      }
      const replicaTimeoutMs = Math.floor(commandTimeoutMs / 2);
      const replicaLagMs = dice.scale(1, replicaTimeoutMs * 2);
      return {
        commandTimeoutMs,
        ...server,
        minReplicaAcks: 1,
        replicaTimeoutMs,
        replicas: dice.int(1, 2),
        replicaLagMs,
      };
    },

    open(world, given) {
      const { afterCrash, replicas, replicaLagMs, ...options } = given as Options;
      routeGlobals(world.kernel);
      const { restartGuardMs = 0 } = options;
      const host = new RedisHost('redis', world, { afterCrash, replicas, replicaLagMs, onCommand });
      if (restartGuardMs > 0) host.hasBeenGuarded(restartGuardMs);
      return {
        servers: [host],
        closedAfterCrashMs: restartGuardMs,
        storeFor: (process) => redisStore(host.targetFor(process), options),
        forget: (how) => host.forget(how),
        holdersOf: (key) => host.holdersOf(key),
        leftovers: () => host.leftovers(),
      };
    },
  };
}
