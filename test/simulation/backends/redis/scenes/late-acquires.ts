import type { Scene, SceneFrame } from '../../../plan/scene.js';
import { callOf, late, messageSince } from '../../../plan/scenes/aims.js';

/** One who has given up, whose acquire is executed long after that, or is written once more only then. */
export function lateAcquires(frame: SceneFrame): Scene {
  const { dice, key, processes, storeOptions } = frame;
  const { commandTimeoutMs } = storeOptions;
  const process = dice.int(0, processes - 1);
  const keys = dice.happens(0.6) ? [key, `${key} too`] : [key];
  const call = callOf(frame, {
    process,
    how: dice.pick(['withLock', 'tryAcquire']),
    keys,
    // So long that it is seen when it is left behind.
    options: {
      waitMs: dice.pick([0, 0, dice.scale(1, commandTimeoutMs)]),
      leaseMs: dice.int(20_000, 60_000),
    },
    ...(dice.happens(0.3) && { abortAfterMs: dice.scale(1, commandTimeoutMs) }),
    work: [{ do: 'sleep', ms: dice.scale(1, 100) }],
  });
  const when = messageSince(frame, 'asked', { message: 'acquire', of: process });
  const ms = dice.int(Math.floor(commandTimeoutMs / 4), 6 * commandTimeoutMs);
  const cutMs = dice.scale(1, commandTimeoutMs);
  return {
    calls: [call],
    faults: [
      ...(dice.happens(0.8) ? late(frame, when, ms) : [{ when, act: { do: 'break' } } as const]),
      ...(dice.happens(0.4)
        ? [{ when, afterMs: 40, act: { do: 'cut', who: process, ms: cutMs } } as const]
        : []),
    ],
  };
}
