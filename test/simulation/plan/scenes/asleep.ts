import type { Scene, SceneFrame } from '../scene.js';
import { callOf, twoOf } from './aims.js';

/**
 * The machine of a holder sleeps until its lease is over, and another process gets the lock. The holder works on, or its work ends before
 * the store has said that the lock is lost, which its process may not reach any more.
 */
export function asleep(frame: SceneFrame): Scene {
  const { dice, key, storeOptions, watchdogTimeoutMs } = frame;
  const [holder, waiter] = twoOf(frame);
  const leaseMs = dice.happens(0.6) ? dice.int(4000, 9000) : undefined;
  const lengthMs = leaseMs ?? watchdogTimeoutMs;
  const sleepMs = lengthMs + dice.int(200, 2000);
  const afterMs = dice.int(100, 800);
  const isAway = dice.happens(0.4);
  const when = { event: 'acquired', nth: 1, of: holder, key } as const;
  const sleeping = { when, afterMs, act: { do: 'suspend', who: holder, ms: sleepMs } } as const;
  const awayMs = sleepMs + 4 * storeOptions.commandTimeoutMs;
  const away = { when, afterMs: afterMs + 1, act: { do: 'cut', who: holder, ms: awayMs } } as const;
  // Its own time stands still while it sleeps.
  const workMs = isAway ? afterMs + dice.int(10, storeOptions.commandTimeoutMs) : 2 * lengthMs;
  return {
    calls: [
      callOf(frame, {
        process: holder,
        ...(leaseMs !== undefined && { options: { leaseMs } }),
        work: [{ do: 'sleep', ms: workMs }],
        ...(dice.happens(0.8) && { isUnasked: true }),
      }),
      callOf(frame, {
        process: waiter,
        afterMs: dice.int(50, 100),
        options: { waitMs: 'Infinity' },
        work: [{ do: 'sleep', ms: sleepMs }],
      }),
    ],
    faults: isAway ? [sleeping, away] : [sleeping],
  };
}
