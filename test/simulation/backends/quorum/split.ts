import type { FaultPlan } from '../../plan/plan.js';
import type { Scene, SceneFrame } from '../../plan/scene.js';
import { callOf, late, messageSince, twoOf } from '../redis/scenes/aims.js';

/**
 * Two owners have one of two nodes each, while the third is out of reach. Both give their lease back and ask again, and the first
 * release is executed once more after that.
 */
export function split(frame: SceneFrame): Scene {
  const { dice, key, servers, storeOptions } = frame;
  const { commandTimeoutMs } = storeOptions;
  const away = dice.int(0, servers - 1);
  const owners = twoOf(frame);
  const cutMs = 20 * commandTimeoutMs;
  const calls = owners.map((process) =>
    callOf(frame, {
      process,
      afterMs: dice.int(0, 2),
      options: { waitMs: 'Infinity' },
      work: [{ do: 'sleep', ms: 10 * commandTimeoutMs }],
    }),
  );
  const faults = owners.flatMap((process): readonly FaultPlan[] => {
    const when = messageSince(frame, 'asked', { message: 'release', of: process, nth: dice.pick([1, 1, 2]) });
    const isAsked = { event: 'asked', nth: 1, of: process, key } as const;
    return [
      { when: isAsked, act: { do: 'cut', who: process, ms: cutMs, only: away } },
      ...late(frame, when, dice.int(commandTimeoutMs, 6 * commandTimeoutMs)),
    ];
  });
  return { calls, faults };
}
