import type { Scene, SceneFrame } from '../scene.js';
import { callOf, twoOf } from './aims.js';

/** A store without sessions drops a waiter that was silent for so long. */
const SILENT_MS = 3000;
/** What its absence disturbs is over by then. */
const REPAIR_MS = 6000;

/**
 * A waiter is away until the store has dropped it from the queue, while a process waits that asked after it. It is back for long when
 * the holder releases, and keeps its place.
 */
export function lostPlace(frame: SceneFrame): Scene {
  const { dice, key, processes, storeOptions, watchdogTimeoutMs } = frame;
  const [holder, waiter] = twoOf(frame);
  const others = Array.from({ length: processes }, (_, i) => i).filter((i) => i !== holder && i !== waiter);
  const { mostSessionMs = watchdogTimeoutMs } = storeOptions;
  const awayMs = Math.max(SILENT_MS, Number(mostSessionMs)) + dice.int(500, 3000);
  const goesMs = dice.int(2000, 4000);
  const workMs = goesMs + awayMs + REPAIR_MS + dice.int(1000, 3000);
  const options = { waitMs: 'Infinity' as const };
  const work = [{ do: 'sleep' as const, ms: dice.scale(10, 1000) }];
  return {
    calls: [
      callOf(frame, { process: holder, work: [{ do: 'sleep', ms: workMs }] }),
      callOf(frame, { process: waiter, afterMs: dice.int(100, 300), options, work }),
      ...others.map((process) =>
        callOf(frame, { process, afterMs: dice.int(1500, goesMs + awayMs), options, work }),
      ),
    ],
    faults: [
      {
        when: { event: 'acquired', nth: 1, of: holder, key },
        afterMs: goesMs,
        act: { do: dice.pick(['cut', 'stop', 'suspend'] as const), who: waiter, ms: awayMs },
      },
    ],
  };
}
