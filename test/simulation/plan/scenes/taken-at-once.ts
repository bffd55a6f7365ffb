import type { Scene, SceneFrame } from '../scene.js';
import { callOf, twoOf } from './aims.js';

/**
 * A holder ends as soon as it is told that its lock is taken over, and another caller of its process waits behind it. They have waited
 * together for longer than a recheck, and their process has just learnt that others wait, so that it might still hand the lock on.
 */
export function takenAtOnce(frame: SceneFrame): Scene {
  const { dice } = frame;
  const [holder, taker] = twoOf(frame);
  const graceMs = dice.int(500, 3000);
  const taking = { onBusy: 'takeover', graceMs, waitMs: 60_000 } as const;
  const patient = { waitMs: 'Infinity' } as const;
  return {
    calls: [
      callOf(frame, { process: taker, work: [{ do: 'sleep', ms: 2500 }] }),
      callOf(frame, {
        process: holder,
        afterMs: 100,
        options: patient,
        work: [
          { do: 'until lost', ms: 5000 },
          { do: 'sleep', ms: dice.int(2, 8) },
        ],
      }),
      callOf(frame, { process: holder, afterMs: 101, options: patient }),
      callOf(frame, { process: taker, afterMs: 2500 + dice.int(200, 1000), options: taking }),
    ],
    faults: [],
  };
}
