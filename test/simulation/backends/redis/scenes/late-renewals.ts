import type { FaultPlan, Step, Trigger } from '../../../plan/plan.js';
import type { Scene, SceneFrame } from '../../../plan/scene.js';
import { askingOf, callOf, late, messageSince } from '../../../plan/scenes/aims.js';

/** A lease is set to less and then to more again, and the request for less is executed last, or is sent once more. */
export function lateRenewals(frame: SceneFrame): Scene {
  const { dice, processes, servers, storeOptions } = frame;
  const { commandTimeoutMs } = storeOptions;
  const process = dice.int(0, processes - 1);
  const lessMs = dice.int(2 * commandTimeoutMs, 5 * commandTimeoutMs);
  const moreMs = 4 * lessMs;
  // Within its not-after, or beyond.
  const holdMs = dice.happens(0.5)
    ? dice.int(Math.floor(commandTimeoutMs / 3), commandTimeoutMs - 1)
    : dice.int(commandTimeoutMs, 4 * commandTimeoutMs);
  const extend = (ms: number): Step => ({ do: 'extend', ms });
  const sleep = (ms: number): Step => ({ do: 'sleep', ms });
  const soonMs = dice.scale(1, commandTimeoutMs / 2);
  const asksForMore: readonly Step[] = [
    sleep(soonMs),
    extend(moreMs),
    ...Array.from({ length: 6 }, () => sleep(commandTimeoutMs)),
  ];
  // Beside it, or once the request for less has failed.
  const work: readonly Step[] = dice.happens(0.5)
    ? [
        { do: 'beside', call: askingOf(frame, { options: { waitMs: 1000 }, work: asksForMore }) },
        sleep(1),
        extend(lessMs),
      ]
    : [extend(lessMs), ...asksForMore];
  const faults = Array.from({ length: servers }, (_, i) => i + 1)
    .filter(() => servers === 1 || dice.happens(0.7))
    .flatMap((nth) => {
      const when = messageSince(frame, 'acquired', { message: 'renew', of: process, nth });
      return overtaken(frame, when, holdMs);
    });
  return { calls: [callOf(frame, { process, options: { leaseMs: moreMs }, work })], faults };
}

function overtaken(frame: SceneFrame, when: Trigger, ms: number): readonly FaultPlan[] {
  return frame.dice.happens(0.7)
    ? late(frame, when, ms)
    : [{ when, act: { do: frame.dice.pick(['break', 'break after', 'lose']) } }];
}
