import type { Scene, SceneFrame } from '../../../plan/scene.js';
import { callOf } from '../../../plan/scenes/aims.js';

const STEPS = ['connect', 'hello', 'client', 'info', 'script', 'subscribe', 'any request', 'any reply'];

/** A connection is lost, and a step of the handshake of the next one is never answered. */
export function handshakes(frame: SceneFrame): Scene {
  const { dice, atMs, processes } = frame;
  const process = dice.int(0, processes - 1);
  const step = dice.pick(STEPS);
  const reply = step === 'connect' ? 'connected' : `re:${step}`;
  const message = dice.happens(0.5) || step.includes(' ') ? step : reply;
  const calls = Array.from({ length: 3 }, (_, i) =>
    callOf(frame, { process, afterMs: dice.int(100, 3000) * i, work: [{ do: 'sleep', ms: 10 }] }),
  );
  return {
    calls,
    faults: [
      { when: { event: 'asked', nth: 1, of: process, key: frame.key }, act: { do: 'reset', who: process } },
      {
        when: {
          message,
          nth: dice.int(1, 6),
          of: process,
          since: { event: 'asked', nth: 1, key: frame.key },
        },
        act: { do: 'lose' },
      },
      ...(dice.happens(0.3)
        ? [{ when: { atMs: atMs + 20_000 }, act: { do: 'reset', who: process } } as const]
        : []),
    ],
  };
}
