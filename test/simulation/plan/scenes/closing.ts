import type { FaultPlan } from '../plan.js';
import type { Scene, SceneFrame } from '../scene.js';
import { callOf, messageSince, twoOf } from './aims.js';

/** A process drains or closes while its grant is under way, or while its release is not answered. Another process waits. */
export function closing(frame: SceneFrame): Scene {
  const { dice, key, latencyMs, messages, storeOptions, processes } = frame;
  const [first, second] = twoOf(frame);
  const isAtGrant = dice.happens(0.5);
  const [holder, closes] = isAtGrant ? [first, second] : [first, first];
  const act = { do: dice.pick(['drain', 'close'] as const), who: closes };
  const when = { event: 'ended' as const, nth: 1, of: holder, key };
  const isReply = dice.happens(0.5);
  const release = messageSince(frame, 'ended', {
    message: isReply ? `re:${messages.release}` : messages.release,
    of: holder,
  });
  const holdMs = dice.scale(10, 2 * storeOptions.commandTimeoutMs);
  const unanswered: FaultPlan = {
    when: release,
    act: dice.pick([
      { do: 'hold', ms: holdMs },
      { do: 'lose' },
      { do: isReply ? 'break after' : 'break' },
    ] as const),
  };
  const options = { waitMs: 'Infinity' as const };
  const others = Array.from({ length: processes }, (_, i) => i).filter((i) => i !== first && i !== second);
  const waits = others.length > 0 ? dice.pick(others) : isAtGrant ? first : second;
  return {
    calls: [
      callOf(frame, { process: first, work: [{ do: 'sleep', ms: 300 }] }),
      callOf(frame, {
        process: second,
        afterMs: 100,
        options,
        work: [{ do: 'sleep', ms: dice.scale(1, 300) }],
      }),
      callOf(frame, { process: waits, afterMs: 200, options }),
    ],
    faults: [...(isAtGrant ? [] : [unanswered]), { when, afterMs: dice.scale(1, 6 * latencyMs), act }],
  };
}
