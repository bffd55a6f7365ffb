import type { CallOptionsPlan, Step } from '../plan.js';
import type { Scene, SceneFrame } from '../scene.js';
import { callOf, twoOf } from './aims.js';

/** One of two holders of permits, or of two readers, is forced out by name. The other keeps what it has, and a third call waits. */
export function forcedByName(frame: SceneFrame): Scene {
  const { dice, key } = frame;
  const [first, second] = twoOf(frame);
  const { kept, taken, wanted } = dice.happens(0.7) ? permitsOf(frame) : READERS;
  const work: readonly Step[] = [{ do: 'until lost', ms: 4000 }];
  return {
    calls: [
      callOf(frame, { process: second, options: kept, work }),
      callOf(frame, { process: first, afterMs: dice.int(200, 400), options: taken, work }),
      callOf(frame, {
        process: dice.pick([first, second]),
        afterMs: dice.int(600, 900),
        options: { ...wanted, waitMs: 'Infinity' },
        work: [{ do: 'sleep', ms: dice.int(10, 300) }],
      }),
    ],
    faults: [
      {
        when: { event: 'acquired', nth: 1, of: first, key },
        afterMs: dice.int(900, 1500),
        act: { do: 'force', who: dice.pick([first, second]), key, isNamed: true },
      },
    ],
  };
}

interface Claims {
  readonly kept: CallOptionsPlan;
  readonly taken: CallOptionsPlan;
  readonly wanted: CallOptionsPlan;
}

const READERS: Claims = {
  kept: { mode: 'shared' },
  taken: { mode: 'shared' },
  wanted: { mode: 'exclusive' },
};

/** The one that waits needs all that is taken. */
function permitsOf({ dice }: SceneFrame): Claims {
  const permits = dice.int(2, 5);
  const weight = dice.int(1, permits - 1);
  const taken = { permits, weight };
  return { kept: { permits, weight: permits - weight }, taken, wanted: taken };
}
