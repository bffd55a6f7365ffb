import type { Step } from '../plan.js';
import type { Scene, SceneFrame } from '../scene.js';
import { callOf, twoOf } from './aims.js';

/** The last of several readers leaves, or a writer becomes a reader, while a writer and later readers of two processes wait. */
export function lastReader(frame: SceneFrame): Scene {
  const { dice } = frame;
  const [first, second] = twoOf(frame);
  const sleep = (least: number, most: number): Step => ({ do: 'sleep', ms: dice.int(least, most) });
  const call = (process: number, afterMs: number, mode: 'shared' | 'exclusive', work: readonly Step[]) =>
    callOf(frame, { process, afterMs, options: { mode, waitMs: 'Infinity' }, work });
  const read = (process: number, afterMs: number, endsAtMs: number) =>
    call(process, afterMs, 'shared', [{ do: 'sleep', ms: endsAtMs - afterMs }]);
  const endMs = 500;
  const stepsDown = dice.happens(0.5);
  const before = stepsDown
    ? [call(first, 0, 'exclusive', [{ do: 'sleep', ms: endMs - 100 }, { do: 'downgrade' }, sleep(50, 300)])]
    : [read(first, 0, endMs), read(second, 50, endMs + dice.int(-5, 5)), read(first, 60, endMs - 100)];
  return {
    calls: [
      ...before,
      call(second, dice.int(100, 350), 'exclusive', [sleep(10, 300)]),
      read(first, dice.int(360, endMs), 900),
      read(second, dice.int(360, endMs), 900),
      call(first, dice.int(300, endMs), 'exclusive', [sleep(1, 50)]),
    ],
    faults: [],
  };
}

/** One who needs most permits waits, and those behind it need one. */
export function bigPermit(frame: SceneFrame): Scene {
  const { dice } = frame;
  const [first, second] = twoOf(frame);
  const permits = dice.int(3, 5);
  const call = (process: number, afterMs: number, weight: number, ms: number) =>
    callOf(frame, {
      process,
      afterMs,
      options: { permits, weight, waitMs: 'Infinity' },
      work: [{ do: 'sleep', ms }],
    });
  const small = Array.from({ length: dice.int(4, 8) }, () =>
    call(dice.pick([first, second]), dice.int(250, 1500), 1, dice.int(100, 800)),
  );
  return {
    calls: [
      call(first, 0, 1, dice.int(400, 1500)),
      call(second, 0, 1, dice.int(400, 1500)),
      call(dice.pick([first, second]), 150, permits - dice.int(0, 1), dice.int(10, 300)),
      ...small,
    ],
    faults: [],
  };
}
