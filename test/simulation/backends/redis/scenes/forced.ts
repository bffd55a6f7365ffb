import type { FaultPlan } from '../../../plan/plan.js';
import type { Scene, SceneFrame } from '../../../plan/scene.js';
import { callOf, late, messageSince, twoOf } from '../../../plan/scenes/aims.js';

/**
 * A lock is taken by force, which its holder is not told, and another has it for a moment. Perhaps the first acquire of the
 * holder, which came twice, is executed again then.
 */
export function forced(frame: SceneFrame): Scene {
  const { dice, key, watchdogTimeoutMs, storeOptions } = frame;
  const { commandTimeoutMs } = storeOptions;
  const [holder, other] = twoOf(frame);
  const keys = dice.happens(0.5) ? [key] : [key, `${key} too`];
  const hasTwoCopies = dice.happens(0.6);
  const lateMs = dice.int(Math.floor(commandTimeoutMs / 2), commandTimeoutMs);
  const when = messageSince(frame, 'asked', { message: 'acquire', of: holder });
  const isAcquired = { event: 'acquired' as const, nth: 1, of: holder, key };
  const afterMs = dice.scale(1, lateMs / 2);
  const workMs = 2 * watchdogTimeoutMs + 5 * commandTimeoutMs + 2000;
  const call = { service: 0, how: 'tryAcquire' as const, keys: [key], options: {}, work: [] };
  const faults: readonly FaultPlan[] = [
    ...(hasTwoCopies ? late(frame, when, lateMs) : []),
    { when: isAcquired, afterMs, act: { do: 'force', who: other, key } },
    { when: messageSince(frame, 'acquired', { message: 'lost', of: holder }), act: { do: 'lose' } },
    ...(dice.happens(0.7)
      ? [
          {
            when: isAcquired,
            afterMs: afterMs + dice.scale(1, 30),
            act: { do: 'call', who: other, call },
          } as const,
        ]
      : []),
  ];
  return { calls: [callOf(frame, { process: holder, keys, work: [{ do: 'sleep', ms: workMs }] })], faults };
}
