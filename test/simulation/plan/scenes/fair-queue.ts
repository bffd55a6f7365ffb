import type { CallPlan } from '../plan.js';
import type { Scene, SceneFrame } from '../scene.js';
import { callOf, twoOf } from './aims.js';

/**
 * The fair callers of a process wait for longer than the store keeps one who does not recheck, and one of another process between
 * them. All keep their places.
 */
export function longFairQueue(frame: SceneFrame): Scene {
  const { dice } = frame;
  const [many, one] = twoOf(frame);
  const count = dice.int(4, 7);
  const place = dice.int(1, count);
  const everyMs = dice.int(100, 400);
  const workMs = dice.int(700, 1500);
  const options = { fair: true, waitMs: 'Infinity' as const };
  const call = (process: number, afterMs: number): CallPlan =>
    callOf(frame, { process, afterMs, options, work: [{ do: 'sleep', ms: dice.int(workMs / 2, workMs) }] });
  return {
    calls: [
      ...Array.from({ length: count }, (_, i) => call(many, i * everyMs)),
      call(one, place * everyMs - dice.int(1, everyMs - 1)),
    ],
    faults: [],
  };
}

/** The callers of a process hand the lock on among themselves for seconds, with little work each, while another process waits. */
export function longHandOffs(frame: SceneFrame): Scene {
  const { dice } = frame;
  const [many, one] = twoOf(frame);
  const workMs = dice.int(50, 400);
  const count = Math.ceil(4000 / workMs);
  const options = { waitMs: 'Infinity' as const };
  return {
    calls: [
      ...Array.from({ length: Math.min(count, 30) }, (_, i) =>
        callOf(frame, { process: many, afterMs: i, options, work: [{ do: 'sleep', ms: workMs }] }),
      ),
      callOf(frame, { process: one, afterMs: dice.int(50, 1500), options }),
    ],
    faults: [],
  };
}
