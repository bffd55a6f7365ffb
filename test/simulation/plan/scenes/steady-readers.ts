import type { Scene, SceneFrame } from '../scene.js';
import { callOf, twoOf } from './aims.js';

/** Readers of one process come one after the other, so that one always reads, and a writer of another process waits. */
export function steadyReaders(frame: SceneFrame): Scene {
  const { dice } = frame;
  const [readers, writer] = twoOf(frame);
  const everyMs = dice.int(150, 400);
  return {
    calls: [
      ...Array.from({ length: dice.int(8, 14) }, (_, i) =>
        callOf(frame, {
          process: readers,
          afterMs: i * everyMs,
          options: { mode: 'shared', waitMs: 'Infinity' },
          work: [{ do: 'sleep', ms: Math.floor(everyMs * 1.5) }],
        }),
      ),
      callOf(frame, {
        process: writer,
        afterMs: dice.int(1, 3 * everyMs),
        options: { mode: 'exclusive', waitMs: 'Infinity' },
        work: [{ do: 'sleep', ms: dice.int(1, 100) }],
      }),
    ],
    faults: [],
  };
}
