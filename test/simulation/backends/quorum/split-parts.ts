import type { Scene, SceneFrame } from '../../plan/scene.js';
import { askingOf, callOf, twoOf } from '../../plan/scenes/aims.js';

/**
 * Each of two processes reaches another majority of the nodes, and both ask for a key at once. One asks once in between: while they
 * share the nodes, or while one of them holds by few nodes more than half.
 */
export function splitParts(frame: SceneFrame): Scene {
  const { atMs, dice, key, processes, servers, watchdogTimeoutMs } = frame;
  const [first, second] = twoOf(frame);
  const minority = Math.floor((servers - 1) / 2);
  const workMs = dice.int(watchdogTimeoutMs / 3, 1.5 * watchdogTimeoutMs);
  const ms = 2 * workMs + dice.int(500, 5000);
  const cut = (who: number, from: number) =>
    Array.from({ length: minority }, (_, i) => ({
      when: { atMs: Math.max(0, atMs - dice.int(0, 200)) },
      act: { do: 'cut' as const, who, ms, only: (from + i) % servers },
    }));
  const start = dice.int(0, servers - 1);
  const once = askingOf(frame, {
    how: dice.pick(['tryAcquire', 'withLock']),
    options: { waitMs: 0 },
    work: [{ do: 'sleep', ms: dice.scale(1, workMs) }],
  });
  const call = (process: number, afterMs: number) =>
    callOf(frame, {
      process,
      afterMs,
      options: { waitMs: 'Infinity' },
      work: [{ do: 'sleep', ms: workMs }],
    });
  const event = dice.pick(['asked', 'acquired', 'ended'] as const);
  return {
    calls: [call(first, 200), call(second, 200 + dice.int(0, 3))],
    faults: [
      ...cut(first, start),
      ...cut(second, start + minority),
      ...Array.from({ length: dice.int(1, 3) }, (_, i) => ({
        when: { event, nth: dice.int(1, 2), of: 'anyone' as const, key },
        afterMs: dice.scale(1, 300) * (i + 1),
        act: { do: 'call' as const, who: dice.int(0, processes - 1), call: once },
      })),
    ],
  };
}
