import type { CallOptionsPlan, Step } from '../plan.js';
import type { Scene, SceneFrame } from '../scene.js';
import { callOf, twoOf } from './aims.js';

/**
 * Permits of a key are asked for while it is held as a lock, or the reverse, by a process that has not seen the key before. It is
 * refused, and has left nothing that the next caller would find.
 */
export function otherKind(frame: SceneFrame): Scene {
  const { dice, watchdogTimeoutMs } = frame;
  const [first, second] = twoOf(frame);
  const kinds: readonly CallOptionsPlan[] = [{}, { permits: dice.int(1, 3) }];
  const [held = {}, other = {}] = dice.happens(0.5) ? kinds : kinds.toReversed();
  const heldMs = Math.min(3000, Math.floor(0.9 * watchdogTimeoutMs));
  // The release of a holder would delete what the other has left. After a minimum hold nobody writes.
  const isMinimum = dice.happens(0.6);
  const options = isMinimum ? { ...held, holdAtLeastMs: heldMs } : held;
  const work: readonly Step[] = isMinimum ? [] : [{ do: 'sleep', ms: heldMs }];
  const again = { process: first, afterMs: dice.int(heldMs, 2 * heldMs), options: held };
  return {
    calls: [
      callOf(frame, { process: first, options, work }),
      callOf(frame, {
        process: second,
        afterMs: dice.int(Math.floor(heldMs / 4), heldMs),
        options: { ...other, waitMs: 'Infinity' },
      }),
      ...(dice.happens(0.5) ? [callOf(frame, again)] : []),
    ],
    faults: [],
  };
}
