import type { FaultPlan, Step } from '../../plan/plan.js';
import type { Scene, SceneFrame } from '../../plan/scene.js';
import { callOf, late, messageSince, twoOf } from '../../plan/scenes/aims.js';

/** Of the quorum: so long after a lease that came late its owner confirms the others (`quorum/acquire.ts`). */
const CONFIRM_MS = 100;

/**
 * The confirmation of a lease that came late is under way for long, at some nodes, while its owner extends the lock. It carries the
 * lease from before the extension, and the nodes execute it last. Another owner waits.
 */
export function lateConfirmation(frame: SceneFrame): Scene {
  const { dice, servers, storeOptions, latencyMs } = frame;
  const { commandTimeoutMs } = storeOptions;
  const [holder, waiter] = twoOf(frame);
  const leaseMs = 3 * commandTimeoutMs + 4 * latencyMs + dice.int(200, 1000);
  const moreMs = 3 * leaseMs;
  const holdMs = dice.int(Math.floor(commandTimeoutMs / 4), 2 * commandTimeoutMs);
  // A round trip or two after the grant the last node grants, too, and the confirmation is under way this much later.
  const beforeMs = CONFIRM_MS + dice.int(0, 2 * latencyMs + 30);
  const extend = (ms: number): Step => ({ do: 'extend', ms });
  const sleep = (ms: number): Step => ({ do: 'sleep', ms });
  const faults = Array.from({ length: servers }, (_, i) => i + 1)
    .filter(() => dice.happens(0.7))
    .flatMap((nth): readonly FaultPlan[] =>
      late(frame, messageSince(frame, 'acquired', { message: 'renew', of: holder, nth }), holdMs),
    );
  return {
    calls: [
      callOf(frame, {
        process: holder,
        options: { leaseMs },
        work: [sleep(beforeMs), extend(moreMs), ...Array.from({ length: 4 }, () => sleep(leaseMs / 2))],
      }),
      callOf(frame, {
        process: waiter,
        afterMs: dice.int(0, CONFIRM_MS + 50),
        options: { waitMs: 'Infinity' },
        work: [sleep(dice.scale(10, 500))],
      }),
    ],
    faults,
  };
}
