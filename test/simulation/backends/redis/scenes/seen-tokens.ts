import type { Scene, SceneFrame } from '../../../plan/scene.js';
import { callOf, twoOf } from '../../../plan/scenes/aims.js';

/**
 * One has had a lock, the server forgets everything and its clock is set back, and another gets smaller tokens, as it has seen none.
 * The first one waits behind it, so that the release of the other grants the lock to one who has seen larger tokens.
 */
export function seenTokens(frame: SceneFrame): Scene {
  const { dice, key, storeOptions } = frame;
  const { commandTimeoutMs } = storeOptions;
  const [first, second] = twoOf(frame);
  const mode = dice.pick([undefined, 'exclusive', 'shared'] as const);
  const options = { waitMs: 'Infinity' as const, ...(mode && { mode }) };
  const exclusive = { ...options, ...(mode && { mode: 'exclusive' as const }) };
  const forgetsAfterMs = 500 + 4 * commandTimeoutMs;
  const queuedMs = 100 + 2 * commandTimeoutMs;
  const when = { event: 'asked', nth: 1, of: second, key } as const;
  return {
    calls: [
      callOf(frame, { process: first, options: exclusive, work: [{ do: 'sleep', ms: 10 }] }),
      callOf(frame, {
        process: second,
        afterMs: forgetsAfterMs,
        options: exclusive,
        work: [{ do: 'sleep', ms: 2 * queuedMs }],
      }),
      callOf(frame, { process: first, afterMs: forgetsAfterMs + queuedMs, options }),
    ],
    faults: [
      { when, act: { do: 'forget', how: 'empty' } },
      { when, act: { do: 'server clock', server: 0, ms: -dice.scale(2000, 60_000) } },
    ],
  };
}
