import type { DrawScene } from '../scene.js';
import { abortAtGrant } from './abort-at-grant.js';
import { asleep } from './asleep.js';
import { away } from './away.js';
import { clockBackAtGrant, clockBackAtReaders } from './clock-back.js';
import { closing } from './closing.js';
import { deadClient } from './dead-client.js';
import { longFairQueue, longHandOffs } from './fair-queue.js';
import { forcedAtGrant } from './forced-at-grant.js';
import { forcedByName } from './forced-by-name.js';
import { keptWhileRenewed } from './kept-while-renewed.js';
import { lastKey } from './last-key.js';
import { overlappedRenewal } from './late-renewal.js';
import { lostPlace } from './lost-place.js';
import { lostRelease } from './lost-release.js';
import { lostWithQueue } from './lost-with-queue.js';
import { minimumBeyondLease } from './minimum-beyond-lease.js';
import { nestedMinimum } from './nested-minimum.js';
import { newcomers } from './newcomers.js';
import { bigPermit, lastReader } from './readers.js';
import { otherKind } from './other-kind.js';
import { shortWaits } from './short-waits.js';
import { steadyReaders } from './steady-readers.js';
import { takenAtOnce } from './taken-at-once.js';
import { takenFromDead } from './taken-from-dead.js';
import { takenOver } from './taken-over.js';
import { takenTwice } from './taken-twice.js';
import { twoResets } from './two-resets.js';

const OF_LOCKS: readonly DrawScene[] = [
  abortAtGrant,
  abortAtGrant,
  asleep,
  away,
  clockBackAtGrant,
  clockBackAtReaders,
  closing,
  closing,
  forcedAtGrant,
  keptWhileRenewed,
  keptWhileRenewed,
  lastKey,
  lastReader,
  longHandOffs,
  lostPlace,
  lostRelease,
  lostWithQueue,
  minimumBeyondLease,
  nestedMinimum,
  newcomers,
  overlappedRenewal,
  overlappedRenewal,
  shortWaits,
  steadyReaders,
  takenAtOnce,
  takenFromDead,
  takenOver,
  takenTwice,
  twoResets,
  twoResets,
];

const OF_FAIR_LOCKS: readonly DrawScene[] = [deadClient, longFairQueue];
const OF_PERMITS: readonly DrawScene[] = [bigPermit, forcedByName, otherKind];

/** The scenes of every store, without those that ask for what this one cannot do. */
export function scenesWithout(cannot: readonly ('permits' | 'fair')[] = []): readonly DrawScene[] {
  return [
    ...OF_LOCKS,
    ...(cannot.includes('fair') ? [] : OF_FAIR_LOCKS),
    ...(cannot.includes('permits') ? [] : OF_PERMITS),
  ];
}
