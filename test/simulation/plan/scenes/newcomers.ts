import type { Scene, SceneFrame } from '../scene.js';
import { callOf, twoOf } from './aims.js';

const NEWCOMERS = 30;

/** One waits for the lock, while callers of the other processes go on coming after it, so many that the lock is never free. */
export function newcomers(frame: SceneFrame): Scene {
  const { dice, processes } = frame;
  const [one] = twoOf(frame);
  const others = Array.from({ length: processes }, (_, i) => i).filter((it) => it !== one);
  const everyMs = dice.int(100, 300);
  const workMs = dice.int(everyMs, 2 * everyMs);
  const mode = dice.happens(0.5) ? ('shared' as const) : ('exclusive' as const);
  // A limit that some of them meet, and it too, so that it asks how many wait.
  const limits = dice.happens(0.5) ? [dice.int(1, processes), dice.int(processes, 2 * processes)] : [];
  const [forNewcomers, forOne] = limits.map((maxWaiting) => ({ maxWaiting }));
  return {
    calls: [
      ...Array.from({ length: NEWCOMERS }, (_, i) =>
        callOf(frame, {
          process: others[i % others.length] as number,
          afterMs: i * everyMs,
          options: { mode, waitMs: 'Infinity', ...forNewcomers },
          work: [{ do: 'sleep', ms: workMs }],
        }),
      ),
      callOf(frame, {
        process: one,
        afterMs: dice.int(1, 2 * everyMs),
        options: { mode: 'exclusive', waitMs: 'Infinity', ...forOne },
      }),
    ],
    faults: [],
  };
}
