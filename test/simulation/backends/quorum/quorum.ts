import { quorumStore } from '../../../../libs/distributed-lock/src/quorum/store.js';
import { ownerOf } from '../../../../libs/distributed-lock/src/quorum/node-owner.js';
import { redisStore } from '../../../../libs/distributed-lock/src/redis/store.js';
import { RedisHost, type AfterCrash } from '../redis/redis-host.js';
import { REDIS_KINDS, REDIS_SCENE_KINDS, REDIS_WRITES } from '../redis/kinds.js';
import { lateConfirmation } from './late-confirmation.js';
import { optional, whole } from '../../plan/checks.js';
import { split } from './split.js';
import { splitParts } from './split-parts.js';
import { REDIS_EVENTS } from '../redis/server-events.js';
import { redisScenes } from '../redis/scenes/scenes.js';
import { routeGlobals } from '../../kernel/globals.js';
import type { Loss } from '../../history/loss.js';
import type { DrawScene } from '../../plan/scene.js';
import type { Backend, StoreOptions } from '../backend.js';

const DEFAULT_NODES = 3;

/** A pause after which one of several owners that have split the nodes wins. */
const SPLIT_PAUSE_MS = 40;

const SCENES: readonly DrawScene[] = [
  lateConfirmation,
  lateConfirmation,
  split,
  split,
  split,
  splitParts,
  splitParts,
  splitParts,
];

interface Options extends StoreOptions {
  /** How many servers there are; default 3. */
  readonly nodes?: number;
  /** Of each node, against true time. */
  readonly aheadMs?: readonly number[];
  readonly afterCrash?: AfterCrash;
  readonly restartGuardMs?: number;
}

/** Three or five independent Redis servers, each with its own clock and its own crashes. */
export const quorum: Backend = {
  name: 'quorum',
  kinds: REDIS_KINDS,
  sceneKinds: REDIS_SCENE_KINDS,
  messages: { acquire: 'acquire', renew: 'renew', release: 'release', granted: 'granted' },
  writes: REDIS_WRITES,
  scenes: (options) => [...redisScenes(options), ...SCENES],
  givesNoTickets: true,
  commandsPerCall: 6,
  serverEvents: REDIS_EVENTS,
  serverCount: ({ nodes = DEFAULT_NODES }) => Number(nodes),
  optionChecks: { nodes: optional(whole(3, 9)) },
  cannot: ['permits'],

  // The release, the notifications, an attempt with its second round for the tokens; as much again where owners split the nodes.
  handOffMs: ({ least, spread }) => 12 * (least + spread) + 2 * SPLIT_PAUSE_MS,

  drawOptions(dice, watchdogTimeoutMs) {
    const commandTimeoutMs = Math.min(dice.pick([50, 100, 250]), Math.floor(watchdogTimeoutMs / 6));
    // Tokens follow the clocks of the nodes.
    const nodes = dice.fork('nodes').happens(0.2) ? 5 : DEFAULT_NODES;
    const aheadMs = Array.from({ length: nodes }, () => (dice.happens(0.5) ? 0 : dice.scale(1, 5000)));
    const common = { commandTimeoutMs, ...(nodes !== DEFAULT_NODES && { nodes }), aheadMs };
    // Twice the longest lease that a program asks for, as it may be extended to that.
    const guarded = { restartGuardMs: 2 * Math.max(watchdogTimeoutMs, 5000) };
    const kind = dice.random();
    if (kind < 0.4) return common;
    if (kind < 0.65) return { ...common, afterCrash: 'nothing', ...guarded };
    return { ...common, afterCrash: dice.pick(['nothing', 'stale']) };
  },

  open(world, given) {
    const {
      commandTimeoutMs,
      nodes = DEFAULT_NODES,
      aheadMs = [],
      afterCrash = 'everything',
      restartGuardMs = 0,
    } = given as Options;
    routeGlobals(world.kernel);
    const last = Math.max(0, ...aheadMs);
    const losses: Loss[] = [];
    const onLoss = (loss: Loss) => losses.push(ofOwners(loss));
    const hosts = Array.from({ length: nodes }, (_, i) => {
      const isBehind = (aheadMs[i] ?? 0) < last;
      return new RedisHost(`redis-${i + 1}`, world, {
        afterCrash,
        replicas: 0,
        replicaLagMs: 0,
        restartGuardMs,
        isBehind,
        onLoss,
      });
    });
    hosts.forEach((host, i) => host.setClock(aheadMs[i] ?? 0));
    const options = { commandTimeoutMs, restartGuardMs };
    return {
      servers: hosts,
      losses,
      closedAfterCrashMs: restartGuardMs,
      storeFor: (process) => quorumStore(hosts.map((host) => redisStore(host.targetFor(process), options))),
      forget: (how) => world.dice.pick(hosts).forget(how),
      holdersOf: (key) => heldByMost(hosts.map((host) => host.holdersOf(key))),
      leftovers: () => hosts.flatMap((host) => host.leftovers()),
    };
  },
};

/** A node knows an attempt of an owner. */
function ofOwners(loss: Loss): Loss {
  return { ...loss, leases: loss.leases.map((it) => ({ ...it, owner: ownerOf(it.owner) })) };
}

/** For how long a majority of the nodes keeps the lock of each owner. What fewer nodes keep is somebody's who must give it back. */
function heldByMost(nodes: readonly ReadonlyMap<string, number>[]): ReadonlyMap<string, number> {
  const leftAt = new Map<string, number[]>();
  nodes.forEach((node, i) => {
    for (const [attempt, leftMs] of node) {
      const owner = ownerOf(attempt);
      const left = leftAt.get(owner) ?? nodes.map(() => 0);
      left[i] = leftMs;
      leftAt.set(owner, left);
    }
  });
  const majority = Math.floor(nodes.length / 2) + 1;
  const kept = new Map<string, number>();
  for (const [owner, left] of leftAt) {
    left.sort((a, b) => b - a);
    kept.set(owner, left[majority - 1] as number);
    kept.set(`${owner} at some node`, left[0] as number);
  }
  return kept;
}
