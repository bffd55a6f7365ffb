import type { Act } from '../plan.js';
import type { Scene, SceneFrame } from '../scene.js';
import { callOf, twoOf } from './aims.js';

/** A holder loses its lock while further callers of its process wait, and they get it again, perhaps behind another process. */
export function lostWithQueue(frame: SceneFrame): Scene {
  const { dice, key, watchdogTimeoutMs } = frame;
  const [holder, other] = twoOf(frame);
  const ms = watchdogTimeoutMs + dice.int(100, 3000);
  const act: Act = dice.pick([
    { do: 'cut', who: holder, ms },
    { do: 'suspend', who: holder, ms },
    { do: 'stop', who: holder, ms },
    { do: 'force', who: other, key },
    { do: 'force', who: holder, key },
  ]);
  const mode = dice.pick([undefined, 'shared', 'exclusive'] as const);
  const options = { waitMs: 'Infinity' as const, ...(mode && { mode }) };
  const others = dice.int(2, 6);
  return {
    calls: [
      callOf(frame, {
        process: holder,
        options: { ...options, ...(mode && { mode: 'exclusive' }) },
        work: [{ do: 'sleep', ms: 2 * watchdogTimeoutMs }],
      }),
      ...Array.from({ length: others }, () =>
        callOf(frame, {
          process: holder,
          afterMs: dice.scale(1, 300),
          options: dice.happens(0.7) ? options : { ...options, waitMs: dice.int(1000, 10_000) },
          work: [{ do: 'sleep', ms: dice.scale(1, 500) }],
        }),
      ),
      ...(dice.happens(0.7)
        ? [
            callOf(frame, {
              process: other,
              afterMs: dice.scale(1, 500),
              options,
              work: [{ do: 'sleep', ms: 200 }],
            }),
          ]
        : []),
    ],
    faults: [
      {
        when: { event: 'acquired', nth: 1, of: holder, key },
        afterMs: dice.int(300, Math.max(400, Math.floor(watchdogTimeoutMs / 2))),
        act,
      },
    ],
  };
}
