import type { Scene, SceneFrame } from '../scene.js';
import { callOf, twoOf } from './aims.js';

/** Several callers of a process ask at once, and would wait for less time than the first reply of the store takes. */
export function shortWaits(frame: SceneFrame): Scene {
  const { dice, latencyMs } = frame;
  const [holder, others] = twoOf(frame);
  const short = () =>
    callOf(frame, {
      process: others,
      afterMs: 300 + dice.int(0, 1),
      options: { waitMs: dice.int(1, Math.max(1, latencyMs)) },
    });
  const isHeld = dice.happens(0.5);
  return {
    calls: [
      ...(isHeld ? [callOf(frame, { process: holder, work: [{ do: 'sleep', ms: 2000 }] })] : []),
      ...Array.from({ length: dice.int(2, 4) }, short),
    ],
    faults: [],
  };
}
