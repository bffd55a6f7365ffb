import { toldAfterGapMs } from '../../../history/told.js';
import type { Scene, SceneFrame } from '../../../plan/scene.js';
import { callOf, twoOf } from '../../../plan/scenes/aims.js';

/** The connection for messages of a holder breaks, and its lock is taken by force before the next one is there. */
export function forcedInGap(frame: SceneFrame): Scene {
  const { dice, key } = frame;
  const [holder, other] = twoOf(frame);
  const when = { event: 'acquired' as const, nth: 1, of: holder, key };
  const afterMs = dice.scale(10, 1000);
  const workMs = afterMs + 2 * toldAfterGapMs(frame);
  return {
    calls: [callOf(frame, { process: holder, work: [{ do: 'sleep', ms: workMs }] })],
    faults: [
      { when, afterMs, act: { do: 'reset', who: holder, kind: 'subscribe' } },
      { when, afterMs: afterMs + dice.scale(1, 30), act: { do: 'force', who: other, key } },
    ],
  };
}
