import { BACK_GOAL_MS, LEASE_MS, SLACK_MS } from '../constants.mjs';
import { cut } from './during.mjs';
import { networksHit } from './networks-hit.mjs';

const BACK_MS = 1000 + SLACK_MS;

export const NETWORK_FAULTS = [
  {
    name: 'blackhole',
    says: 'the network swallows everything, also new connections, for a while',
    stopsStore: true,
    goalMs: BACK_GOAL_MS,
    recoverMs: Math.max(BACK_MS, LEASE_MS + SLACK_MS),
    inject: (world) => cut(networksHit(world), world.random.between(0.3, 2) * LEASE_MS),
  },
];
