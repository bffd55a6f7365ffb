import type { CallOptionsPlan, Step } from '../plan.js';
import type { Scene, SceneFrame } from '../scene.js';
import { callOf, twoOf } from './aims.js';

/** A lock, or the locks of readers, are taken over by two calls of different processes, of which each leaves a grace of its own. */
export function takenTwice(frame: SceneFrame): Scene {
  const { dice, processes } = frame;
  const [holder, first] = twoOf(frame);
  const second = Array.from({ length: processes }, (_, i) => i).find((it) => it !== holder && it !== first);
  const isRead = dice.happens(0.3);
  const work: readonly Step[] = [{ do: 'sleep', ms: 8000 }];
  const claim: CallOptionsPlan = isRead ? { mode: 'shared' } : {};
  const [shortMs, longMs] = [dice.int(10, 500), dice.int(1500, 4000)];
  const isShorterLater = dice.happens(0.6);
  const taking = (process: number, afterMs: number, graceMs: number) =>
    callOf(frame, {
      process,
      afterMs,
      options: { onBusy: 'takeover', graceMs, waitMs: 60_000, ...(isRead && { mode: 'exclusive' }) },
      work,
    });
  return {
    calls: [
      callOf(frame, { process: holder, options: claim, work }),
      ...(isRead ? [callOf(frame, { process: second ?? holder, afterMs: 100, options: claim, work })] : []),
      taking(first, 400, isShorterLater ? longMs : shortMs),
      taking(second ?? holder, 400 + dice.int(1, 1000), isShorterLater ? shortMs : longMs),
    ],
    faults: [],
  };
}
