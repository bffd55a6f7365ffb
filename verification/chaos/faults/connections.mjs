import { setTimeout as pause } from 'node:timers/promises';
import { COMMAND_MS, GOAL_MS, LONG_LEASE_MS, LOOK_MS, SLACK_MS } from '../constants.mjs';
import { during } from './during.mjs';
import { networksHit } from './networks-hit.mjs';

const BACK_MS = 1000 + SLACK_MS;

/** Stands for the minutes of a load balancer: longer than the library takes a connection for a busy one. */
const FORGETS_AFTER_MS = 700;

/** @type {import('../index.d.mts').Kind} */
export const LATE_REQUESTS = {
  name: 'late-requests',
  says: 'connections break, and what they had swallowed is executed later',
  traffic: { leaseMs: LONG_LEASE_MS },
  recoverMs: COMMAND_MS + 2 * SLACK_MS,
  async inject(world) {
    const links = networksHit(world).flatMap((network) => network.open);
    for (const link of links) link.requests.hold();
    await pause(world.random.between(50, 1500));
    for (const link of links) link.reset();
    await pause(world.random.between(0, 700));
    for (const link of links) link.deliverLate();
  },
};

export const CONNECTION_FAULTS = [
  {
    name: 'reset',
    says: 'connections are reset',
    traffic: { leaseMs: LONG_LEASE_MS },
    goalMs: GOAL_MS,
    recoverMs: LOOK_MS + SLACK_MS,
    inject: async (world) => {
      for (const network of networksHit(world)) for (const link of network.open) link.reset();
    },
  },
  {
    name: 'half-open',
    says: 'connections swallow everything for good; new ones are fine',
    traffic: { leaseMs: LONG_LEASE_MS },
    recoverMs: COMMAND_MS + BACK_MS + SLACK_MS,
    inject: async (world) => {
      for (const network of networksHit(world)) for (const link of network.open) link.vanish();
    },
  },
  LATE_REQUESTS,
];

/** In Redis no call may fail by it. @type {import('../index.d.mts').Kind} */
export const IDLE_FORGOTTEN = {
  name: 'idle-forgotten',
  says: 'connections that carry nothing for 0.7 s are forgotten, and nobody is told; callers pause, many ask once',
  traffic: { leaseMs: LONG_LEASE_MS, callersPerKey: 1, waitMs: 0, pauseMs: 3000 },
  recoverMs: 2 * COMMAND_MS + BACK_MS + SLACK_MS,
  async inject(world) {
    await during(
      networksHit(world),
      world.random.between(2000, 5000),
      (link) => (link.forgetsAfterMs = FORGETS_AFTER_MS),
      (link) => (link.forgetsAfterMs = Infinity),
    );
  },
};
