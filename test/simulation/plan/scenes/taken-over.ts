import type { FaultPlan, Step } from '../plan.js';
import type { Scene, SceneFrame } from '../scene.js';
import { callOf, twoOf } from './aims.js';

/**
 * A process holds, and another of its callers waits behind, when a call of another process takes the lock over. The holder ends within
 * its grace, or its machine sleeps for a part of it.
 */
export function takenOver(frame: SceneFrame): Scene {
  const { dice, key, latencyMs } = frame;
  const [holder, taker] = twoOf(frame);
  const graceMs = dice.int(1000, 3000);
  const isAsleep = dice.happens(0.5);
  const short: Step = { do: 'sleep', ms: 100 };
  const steps = isAsleep ? Math.ceil((2 * graceMs) / 100) : dice.int(5, 8);
  const sleep: FaultPlan = {
    when: { event: 'asked', nth: 1, of: taker, key },
    afterMs: 4 * latencyMs + dice.int(10, 200),
    act: { do: 'suspend', who: holder, ms: dice.int(300, graceMs) },
  };
  const options = { onBusy: 'takeover', graceMs, waitMs: 60_000 } as const;
  return {
    calls: [
      callOf(frame, { process: holder, work: Array.from({ length: steps }, () => short) }),
      callOf(frame, { process: holder, afterMs: dice.int(1, 50), work: [short] }),
      callOf(frame, { process: taker, afterMs: dice.int(50, 300), options, work: [short] }),
    ],
    faults: isAsleep ? [sleep] : [],
  };
}
