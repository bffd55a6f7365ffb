import type { Scene, SceneFrame } from '../scene.js';
import { callOf, twoOf } from './aims.js';

/** What a crash disturbs is over by then, and the lease of a long watchdog is not. */
const AFTER_MS = 6000;

/** A holder has crashed, and nobody can be told that its lock is taken over: it comes free when the grace is over. */
export function takenFromDead(frame: SceneFrame): Scene {
  const { dice, key } = frame;
  const [holder, taker] = twoOf(frame);
  const graceMs = dice.int(10, 2000);
  const options = { onBusy: 'takeover', graceMs, waitMs: 60_000 } as const;
  return {
    calls: [
      callOf(frame, {
        process: holder,
        options: dice.happens(0.5) ? { leaseMs: 30_000 } : {},
        work: [{ do: 'sleep', ms: 5000 }],
      }),
      callOf(frame, { process: taker, afterMs: AFTER_MS + dice.int(100, 5000), options }),
    ],
    faults: [
      {
        when: { event: 'acquired', nth: 1, of: holder, key },
        afterMs: dice.int(1, 500),
        act: { do: 'crash', who: holder },
      },
    ],
  };
}
