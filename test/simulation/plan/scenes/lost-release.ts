import type { Scene, SceneFrame } from '../scene.js';
import { askingOf, callOf, messageSince, twoOf } from './aims.js';

/** A release, or its reply, is lost. The same process asks again at once, and another one waits, or asks then. */
export function lostRelease(frame: SceneFrame): Scene {
  const { dice, key, messages } = frame;
  const [holder, other] = twoOf(frame);
  const isReply = dice.happens(0.7);
  const message = isReply ? `re:${messages.release}` : messages.release;
  const again = askingOf(frame, {
    how: dice.pick(['withLock', 'tryAcquire']),
    options: { waitMs: dice.pick([0, 3000]) },
    work: [{ do: 'sleep', ms: dice.scale(1, 1000) }],
  });
  const loses = dice.pick(['lose', isReply ? 'break after' : 'break'] as const);
  return {
    calls: [
      callOf(frame, { process: holder, work: [{ do: 'sleep', ms: 300 }] }),
      callOf(frame, {
        process: other,
        afterMs: dice.pick([dice.int(10, 290), dice.int(300, 800)]),
        options: { waitMs: 'Infinity' },
        work: [{ do: 'sleep', ms: dice.scale(1, 1000) }],
      }),
    ],
    faults: [
      { when: messageSince(frame, 'ended', { message, of: holder }), act: { do: loses } },
      {
        when: { event: 'ended', nth: 1, of: holder, key },
        afterMs: dice.pick([0, 0, dice.scale(1, 300)]),
        act: { do: 'call', who: holder, call: again },
      },
    ],
  };
}
