import { afterEach, beforeEach } from '@jest/globals';
import type { LockService } from '../../libs/distributed-lock/src/lock/lock.service.js';
import { LockWorld } from './lock-world.js';

/** The world of the present test, which has one of its own. */
export let world: LockWorld;
/** Two services in it, as two processes have them. */
export let locks: LockService;
export let other: LockService;

beforeEach(() => {
  world = new LockWorld();
  [locks, other] = [world.service(), world.service()];
});
afterEach(() => world.close());
