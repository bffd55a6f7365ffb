import type { DrawScene } from '../../../plan/scene.js';
import { forced } from './forced.js';
import { goneWaiter } from './gone-waiter.js';
import { handshakes } from './handshakes.js';
import { lateAcquires } from './late-acquires.js';
import { lateRenewals } from './late-renewals.js';
import { lossOfData } from './loss-of-data.js';
import { masterCrash } from './master-crash.js';

/** For one Redis, and for each node of a quorum. */
export const REDIS_SCENES: readonly DrawScene[] = [
  lateRenewals,
  lateRenewals,
  forced,
  forced,
  lateAcquires,
  lateAcquires,
  masterCrash,
  masterCrash,
  lossOfData,
  goneWaiter,
  handshakes,
];
