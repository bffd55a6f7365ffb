import type { Scene, SceneFrame } from '../scene.js';
import { callOf, twoOf } from './aims.js';

/** A process waits for a key that another has, and does not reach the store any more when its waits are over. */
export function away(frame: SceneFrame): Scene {
  const { dice, key, storeOptions } = frame;
  const [holder, waiter] = twoOf(frame);
  const awayMs = 2000 + 6 * storeOptions.commandTimeoutMs;
  const waiting = () =>
    callOf(frame, {
      process: waiter,
      afterMs: dice.int(100, 1500),
      options: { waitMs: dice.int(Math.floor(awayMs / 2), awayMs) },
    });
  return {
    calls: [
      callOf(frame, { process: holder, work: [{ do: 'sleep', ms: awayMs + 2000 }] }),
      ...Array.from({ length: dice.int(1, 3) }, waiting),
      callOf(frame, { process: waiter, afterMs: 100, options: { waitMs: 'Infinity' } }),
      callOf(frame, {
        process: waiter,
        afterMs: dice.int(Math.floor(awayMs / 2), awayMs),
        how: 'tryAcquire',
      }),
    ],
    faults: [
      {
        when: { event: 'acquired', nth: 1, of: holder, key },
        afterMs: dice.int(50, 1500),
        act: { do: 'cut', who: waiter, ms: 2 * awayMs },
      },
    ],
  };
}
