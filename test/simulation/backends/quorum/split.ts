import type { Scene, SceneFrame } from '../../plan/scene.js';
import { callOf, late, messageSince, twoOf } from '../../plan/scenes/aims.js';

/**
 * An owner has one node, and another the other two. The first gives its lease back, which is executed once more when it has the lock by
 * that node and one other.
 */
export function split(frame: SceneFrame): Scene {
  const { dice, key, servers } = frame;
  const [holder, waiter] = twoOf(frame);
  const workMs = dice.int(700, 1200);
  const call = (process: number, ms: number) =>
    callOf(frame, {
      process,
      afterMs: dice.int(0, 2),
      options: { waitMs: 'Infinity' },
      work: [{ do: 'sleep', ms }],
    });
  const when = messageSince(frame, 'asked', { message: 'release', of: waiter });
  return {
    calls: [call(holder, workMs), call(waiter, 2000)],
    faults: [
      ...late(frame, when, workMs + dice.int(100, 1500)),
      {
        when: { event: 'ended', nth: 1, of: holder, key },
        act: { do: 'cut', who: waiter, ms: 3000, only: dice.int(0, servers - 1) },
      },
    ],
  };
}
