import type { Scene, SceneFrame } from '../../../plan/scene.js';
import { callOf, twoOf } from '../../../plan/scenes/aims.js';

/** One has a lock some times, the server forgets everything, and one who has seen no token yet asks next. */
export function lossOfData(frame: SceneFrame): Scene {
  const { dice, key } = frame;
  const [first, second] = twoOf(frame);
  const times = dice.int(1, 4);
  const mode = dice.pick([undefined, 'exclusive', 'exclusive'] as const);
  const options = { waitMs: 'Infinity' as const, ...(mode && { mode }) };
  const calls = Array.from({ length: times }, (_, i) =>
    callOf(frame, { process: first, afterMs: 100 * i, options, work: [{ do: 'sleep', ms: 10 }] }),
  );
  const another = callOf(frame, { process: second, afterMs: 100 * times + dice.scale(50, 500), options });
  return {
    calls: [...calls, another],
    faults: [
      {
        when: { event: 'ended', nth: times, of: first, key },
        act: { do: 'forget', how: dice.pick(['empty', 'stale']) },
      },
    ],
  };
}
