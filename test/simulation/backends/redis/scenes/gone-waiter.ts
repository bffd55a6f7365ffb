import type { Scene, SceneFrame } from '../../../plan/scene.js';
import { callOf, twoOf } from '../../../plan/scenes/aims.js';

/** One who waits crashes, and nobody asks for the key after it. */
export function goneWaiter(frame: SceneFrame): Scene {
  const { dice, key } = frame;
  const [holder, waiter] = twoOf(frame);
  const afterMs = dice.scale(50, 300);
  return {
    calls: [
      callOf(frame, { process: holder, work: [{ do: 'sleep', ms: 1000 }] }),
      callOf(frame, { process: waiter, afterMs, options: { waitMs: 'Infinity' } }),
    ],
    faults: [
      {
        when: { event: 'asked', nth: 1, of: waiter, key },
        afterMs: dice.scale(100, 2000),
        act: { do: 'crash', who: waiter },
      },
    ],
  };
}
