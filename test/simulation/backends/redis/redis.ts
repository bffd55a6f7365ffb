import { redisStore } from '../../../../libs/distributed-lock/src/redis/store.js';
import type { RedisStoreOptions } from '../../../../libs/distributed-lock/src/redis/options.js';
import { RedisHost, type HostOptions } from './redis-host.js';
import { REDIS_KINDS, REDIS_SCENE_KINDS, REDIS_WRITES } from './kinds.js';
import { REDIS_EVENTS } from './server-events.js';
import { redisScenes } from './scenes/scenes.js';
import { routeGlobals } from '../../kernel/globals.js';
import type { Loss } from '../../history/loss.js';
import type { Backend, StoreOptions } from '../backend.js';

/** Options of the store, and of the server below it. */
type Options = StoreOptions & RedisStoreOptions & HostOptions;

/** One Redis server: the real store and the real ioredis over a simulated network, the real scripts on a model of the server. */
export const redis = redisNotedBy();

/** The same. @param onCommand is told what the server is sent @param engine runs the scripts */
export function redisNotedBy(onCommand?: HostOptions['onCommand'], engine?: HostOptions['engine']): Backend {
  return {
    name: 'redis',
    kinds: REDIS_KINDS,
    sceneKinds: REDIS_SCENE_KINDS,
    messages: { acquire: 'acquire', renew: 'renew', release: 'release', granted: 'granted' },
    writes: REDIS_WRITES,
    scenes: redisScenes,
    servesInTurn: true,
    tellsGaps: true,
    commandsPerCall: 3,
    serverEvents: REDIS_EVENTS,
    serverCount: () => 1,

    // The reply that a release waits for, the release, and the notification; as much again for a waiter that has left.
    handOffMs({ least, spread }, { replicaTimeoutMs = 0, replicaLagMs = 0, replicaStallMs = 0 }) {
      // A grant that the replicas do not have in time is given back, and asked for again.
      if (Number(replicaLagMs) + Number(replicaStallMs) > Number(replicaTimeoutMs)) return Infinity;
      return 6 * (least + spread) + 2 * Number(replicaTimeoutMs);
    },

    drawOptions(dice, watchdogTimeoutMs) {
      const commandTimeoutMs = Math.min(dice.pick([100, 250, 500]), Math.floor(watchdogTimeoutMs / 3));
      const server = { afterCrash: 'everything', replicas: 0, replicaLagMs: 0 };
      const kind = dice.random();
      if (kind < 0.35) return { commandTimeoutMs, ...server };
      if (kind < 0.42) return { commandTimeoutMs, ...server, sharedTokens: true };
      if (kind < 0.47) return { commandTimeoutMs, ...server, afterCrash: 'nothing' };
      if (kind < 0.57) {
        // Twice the longest lease that a program asks for, as it may be extended to that.
        const restartGuardMs = 2 * Math.max(watchdogTimeoutMs, 5000);
        return { commandTimeoutMs, ...server, restartGuardMs, afterCrash: 'nothing' };
      }
      const replicaTimeoutMs = Math.floor(commandTimeoutMs / 2);
      const replicaLagMs = dice.scale(1, replicaTimeoutMs * 2);
      const replicas = dice.int(1, 3);
      // With fewer than all replicas the one that is promoted may lack a grant.
      const minReplicaAcks = dice.pick([0, 1, replicas]);
      return {
        commandTimeoutMs,
        ...server,
        ...(minReplicaAcks > 0 && { minReplicaAcks, replicaTimeoutMs }),
        replicas,
        replicaLagMs,
        ...(dice.happens(0.7) && { replicaStallMs: dice.scale(replicaTimeoutMs, 5000) }),
        afterCrash: dice.pick(['everything', 'replica', 'replica', 'replica']),
        reachable: dice.pick([replicas, dice.int(1, replicas)]),
      };
    },

    open(world, given) {
      const { afterCrash, replicas, reachable, replicaLagMs, replicaStallMs, ...options } = given as Options;
      routeGlobals(world.kernel);
      const { restartGuardMs = 0 } = options;
      const server = { afterCrash, replicas, reachable, replicaLagMs, replicaStallMs };
      const { minReplicaAcks } = options;
      const losses: Loss[] = [];
      const onLoss = (loss: Loss) => losses.push(loss);
      const tooFewReplicas: number[] = [];
      const onTooFew = (at: number) => tooFewReplicas.push(at);
      const host = new RedisHost('redis', world, {
        ...server,
        minReplicaAcks,
        restartGuardMs,
        onLoss,
        onTooFew,
        onCommand,
        engine,
      });
      return {
        servers: [host],
        losses,
        tooFewReplicas,
        closedAfterCrashMs: restartGuardMs,
        storeFor: (process) => redisStore(host.targetFor(process), options),
        forget: (how) => host.forget(how),
        calm: () => host.calm(),
        holdersOf: (key) => host.holdersOf(key),
        foreignClient: () => host.foreignClient(),
        leftovers: () => host.leftovers(),
      };
    },
  };
}
