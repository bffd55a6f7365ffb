import type { Scene, SceneFrame } from '../scene.js';
import { callOf, twoOf } from './aims.js';

/** Of several keys the last is not granted in time, while the others are renewed and asked for by others. */
export function lastKey(frame: SceneFrame): Scene {
  const { dice, key, watchdogTimeoutMs } = frame;
  const [several, other] = twoOf(frame);
  const keys = [key, `${key} b`, `${key} c`].slice(dice.int(0, 1));
  const last = keys.at(-1) as string;
  const waitMs = dice.int(500, 2 * watchdogTimeoutMs);
  const first = keys[0] as string;
  return {
    calls: [
      callOf(frame, {
        process: other,
        keys: [last],
        work: [{ do: 'sleep', ms: waitMs + dice.int(-50, 1000) }],
      }),
      callOf(frame, {
        process: several,
        afterMs: 100,
        keys: dice.happens(0.5) ? keys : keys.toReversed(),
        options: { waitMs },
        ...(dice.happens(0.3) && { abortAfterMs: dice.int(200, waitMs) }),
        work: [{ do: 'sleep', ms: dice.scale(1, 200) }],
      }),
      callOf(frame, { process: other, afterMs: 300, keys: [first], options: { waitMs: 'Infinity' } }),
      callOf(frame, { process: several, afterMs: 400, keys: [first], options: { waitMs: 'Infinity' } }),
    ],
    faults: [],
  };
}
