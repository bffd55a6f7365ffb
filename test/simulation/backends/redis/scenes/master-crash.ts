import type { FaultPlan } from '../../../plan/plan.js';
import type { Scene, SceneFrame } from '../../../plan/scene.js';
import { callOf, messageSince, twoOf } from './aims.js';

/** A lock is granted at once, by a notification or together with another, and the server crashes right after that. */
export function masterCrash(frame: SceneFrame): Scene {
  const { dice, key, watchdogTimeoutMs } = frame;
  const [first, second] = twoOf(frame);
  const workMs = dice.scale(20, 200);
  const isNotified = dice.happens(0.5);
  const keys = dice.happens(0.4) ? [key, `${key} too`] : [key];
  const holder = isNotified ? second : first;
  const work = [{ do: 'sleep', ms: watchdogTimeoutMs } as const];
  const calls = [
    ...(isNotified ? [callOf(frame, { process: first, work: [{ do: 'sleep', ms: workMs }] })] : []),
    callOf(frame, {
      process: holder,
      keys: isNotified ? [key] : keys,
      afterMs: isNotified ? dice.int(1, workMs) : 0,
      options: { waitMs: 'Infinity' },
      work,
    }),
  ];
  const afterMs = dice.happens(0.6) ? 0 : dice.scale(1, 300);
  const faults: readonly FaultPlan[] = [
    {
      when: { event: 'acquired', nth: 1, of: holder, key },
      ...(afterMs > 0 && { afterMs }),
      act: { do: 'crash server', server: dice.int(0, frame.servers - 1), ms: dice.scale(1, 300) },
    },
    // Its replicas are counted on another connection then.
    ...(dice.happens(0.3)
      ? [
          {
            when: messageSince(frame, 'asked', { message: dice.pick(['re:acquire', 'wait']), of: holder }),
            act: { do: dice.pick(['break', 'break after'] as const) },
          } as const,
        ]
      : []),
  ];
  return { calls, faults };
}
