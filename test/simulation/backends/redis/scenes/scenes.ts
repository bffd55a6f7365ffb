import type { StoreOptions } from '../../backend.js';
import type { DrawScene } from '../../../plan/scene.js';
import { forced } from './forced.js';
import { forcedInGap } from './forced-in-gap.js';
import { fullMemory } from './full-memory.js';
import { goneWaiter } from './gone-waiter.js';
import { handshakes } from './handshakes.js';
import { lateAcquires } from './late-acquires.js';
import { lateRenewals } from './late-renewals.js';
import { lossOfData } from './loss-of-data.js';
import { masterCrash } from './master-crash.js';
import { seenTokens } from './seen-tokens.js';

const SCENES: readonly DrawScene[] = [
  forced,
  forced,
  forcedInGap,
  fullMemory,
  goneWaiter,
  handshakes,
  lateAcquires,
  lateAcquires,
  lateRenewals,
  lateRenewals,
  lossOfData,
  seenTokens,
];

/** For one Redis, and for each node of a quorum. */
export function redisScenes({ minReplicaAcks = 0, afterCrash }: StoreOptions): readonly DrawScene[] {
  const mustBeReplicated = Number(minReplicaAcks) > 0 && afterCrash === 'replica';
  return mustBeReplicated ? Array.from({ length: 10 }, () => masterCrash) : SCENES;
}
