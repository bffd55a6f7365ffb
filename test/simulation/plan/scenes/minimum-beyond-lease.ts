import type { Scene, SceneFrame } from '../scene.js';
import { askingOf, callOf, twoOf } from './aims.js';

/** A nested call asks for a minimum hold that ends after the fixed lease of its flow, and its work goes on until that is over. */
export function minimumBeyondLease(frame: SceneFrame): Scene {
  const { dice } = frame;
  const [holder, waiter] = twoOf(frame);
  const leaseMs = dice.int(3000, 12_000);
  const nested = askingOf(frame, { options: { leaseMs, holdAtLeastMs: leaseMs - dice.int(1, 300) } });
  return {
    calls: [
      callOf(frame, {
        process: holder,
        options: { leaseMs },
        work: [
          { do: 'sleep', ms: dice.int(400, 900) },
          { do: 'nested', call: nested },
          { do: 'sleep', ms: leaseMs + 500 },
        ],
      }),
      callOf(frame, {
        process: waiter,
        afterMs: dice.int(100, leaseMs),
        options: { waitMs: 'Infinity' },
      }),
    ],
    faults: [],
  };
}
