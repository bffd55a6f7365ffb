import type { FaultPlan, Step } from '../plan.js';
import type { Scene, SceneFrame } from '../scene.js';
import { callOf, messageSince, twoOf } from './aims.js';

const EVENTS = { acquire: 'asked', renew: 'acquired', release: 'ended' } as const;

/**
 * The connections of a process break while it acquires, renews or releases, and break again while it connects. Its next caller and
 * another process wait.
 */
export function twoResets(frame: SceneFrame): Scene {
  const { dice, latencyMs, messages, storeOptions, watchdogTimeoutMs } = frame;
  const [holder, waiter] = twoOf(frame);
  const during = dice.pick(['acquire', 'renew', 'release'] as const);
  const message = dice.happens(0.7) ? messages[during] : `re:${messages[during]}`;
  const when = messageSince(frame, EVENTS[during], { message, of: holder });
  const firstMs = dice.scale(1, 2 * latencyMs);
  const workMs = during === 'renew' ? watchdogTimeoutMs : dice.scale(10, 300);
  const work: readonly Step[] = [{ do: 'sleep', ms: workMs }];
  const options = { waitMs: 'Infinity' as const };
  const heldBack: FaultPlan = {
    when,
    act: { do: 'hold', ms: dice.scale(1, 2 * storeOptions.commandTimeoutMs) },
  };
  return {
    calls: [
      callOf(frame, { process: holder, options, work }),
      callOf(frame, { process: waiter, afterMs: dice.scale(1, 300), options }),
      callOf(frame, { process: holder, afterMs: dice.scale(1, 300), options }),
    ],
    faults: [
      ...(dice.happens(0.5) ? [heldBack] : []),
      { when, afterMs: firstMs, act: { do: 'reset', who: holder } },
      { when, afterMs: firstMs + dice.scale(1, 300), act: { do: 'reset', who: holder } },
    ],
  };
}
