import type { Asking, FaultPlan } from '../plan.js';
import type { Scene, SceneFrame } from '../scene.js';
import { callOf, twoOf } from './aims.js';

/** Several waiters of one process are in the queue before one of another process when theirs crashes, or only stops. */
export function deadClient(frame: SceneFrame): Scene {
  const { dice, key, latencyMs, processes, watchdogTimeoutMs } = frame;
  const [holder, dead] = twoOf(frame);
  const others = Array.from({ length: processes }, (_, i) => i).filter((i) => i !== holder && i !== dead);
  const living = others.length > 0 ? dice.pick(others) : holder;
  const options: Asking['options'] = { fair: true, waitMs: 'Infinity' };
  const count = dice.int(2, 4);
  const queuedMs = 100 + 4 * latencyMs;
  const workMs = 2 * queuedMs + dice.int(500, 4500);
  const ends = dice.happens(0.6)
    ? ({ do: 'crash', who: dead } as const)
    : ({ do: 'stop', who: dead, ms: dice.int(1000, watchdogTimeoutMs + 5000) } as const);
  // Before the release, or while its grant is under way.
  const fault: FaultPlan = dice.happens(0.6)
    ? { when: { event: 'asked', nth: count, of: dead, key }, afterMs: queuedMs, act: ends }
    : { when: { event: 'ended', nth: 1, of: holder, key }, afterMs: dice.scale(1, 4 * latencyMs), act: ends };
  return {
    calls: [
      callOf(frame, { process: holder, options, work: [{ do: 'sleep', ms: workMs }] }),
      ...Array.from({ length: count }, (_, i) =>
        callOf(frame, { process: dead, afterMs: queuedMs + i, options, work: [{ do: 'sleep', ms: 10 }] }),
      ),
      callOf(frame, { process: living, afterMs: 2 * queuedMs, options }),
    ],
    faults: [fault],
  };
}
