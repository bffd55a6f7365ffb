import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import { isLockError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { SimProcess } from '../kernel/process.js';
import type { ProcessPlan } from '../plan/plan.js';
import type { History } from './history.js';

/** At every so many events it does what it does, so that one that calls does not go on for ever by the events of its calls. */
const EVERY = 7;
const BLOCKED_MS = 40;
const EVENTS = ['asked', 'acquired', 'released', 'abandoned', 'contended', 'lost'];

/** A listener that a user has written badly. Whatever it does in the middle of an event, the service must go on. */
export function listenBadly(
  service: LockService,
  manner: NonNullable<ProcessPlan['listener']>,
  process: SimProcess,
  history: History,
): void {
  let heard = 0;
  service.events$.subscribe(({ type }) => {
    if (!EVENTS.includes(type) || (heard += 1) % EVERY !== 0) return;
    if (manner === 'throws') throw new Error('a listener fails');
    if (manner === 'blocks') block(process, history);
    else void callFromWithin(service, process, history);
  });
}

export function block(process: SimProcess, { pauses, calmFrom }: History): void {
  // Scenes of the calm measure how long a process takes.
  if (calmFrom < Infinity) return;
  const from = process.trueNow;
  pauses.push({ process: process.name, kind: 'block', from, to: from + BLOCKED_MS });
  process.block(BLOCKED_MS);
}

/** A key of its own, so that the calls of the plan are judged as without it. */
export async function callFromWithin(
  service: LockService,
  process: SimProcess,
  history: History,
): Promise<void> {
  try {
    const lock = await service.tryAcquire(`listener of ${process.name}`);
    await lock?.release();
  } catch (error) {
    if (!isLockError(error)) history.violate('errors', `a listener of ${process.name}: ${String(error)}`);
  }
}
