import type { Scene, SceneFrame } from '../scene.js';
import { askingOf, callOf, twoOf } from './aims.js';

/** The library accepts no shorter one. */
const MIN_HOLD_MS = 10;

/** A nested call asks for a minimum hold that ends long before the one of its flow. Another process waits, or asks after the release. */
export function nestedMinimum(frame: SceneFrame): Scene {
  const { dice, watchdogTimeoutMs } = frame;
  const [holder, waiter] = twoOf(frame);
  const mostMs = Math.min(watchdogTimeoutMs, 4000);
  const minimumMs = dice.int(mostMs / 2, mostMs);
  const partMs = Math.floor(minimumMs / 4);
  const isFixed = dice.happens(0.3);
  const options = { holdAtLeastMs: minimumMs, ...(isFixed && { leaseMs: minimumMs + 2000 }) };
  const nested = askingOf(frame, { options: { ...options, holdAtLeastMs: dice.int(MIN_HOLD_MS, partMs) } });
  return {
    calls: [
      callOf(frame, {
        process: holder,
        options,
        work: [
          { do: 'sleep', ms: dice.int(1, partMs) },
          { do: dice.pick(['nested', 'beside'] as const), call: nested },
          { do: 'sleep', ms: dice.int(1, partMs) },
        ],
      }),
      callOf(frame, {
        process: waiter,
        afterMs: dice.int(50, 3 * partMs),
        options: { waitMs: 'Infinity' },
      }),
    ],
    faults: [],
  };
}
