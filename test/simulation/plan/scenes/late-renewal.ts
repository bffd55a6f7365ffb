import type { FaultPlan, Step } from '../plan.js';
import type { Scene, SceneFrame } from '../scene.js';
import { askingOf, callOf, late, messageSince, twoOf } from './aims.js';

/** A renewal is under way while its lease is extended twice, released, taken by force, or slept over. Another process waits. */
export function overlappedRenewal(frame: SceneFrame): Scene {
  const { dice, key, messages, storeOptions, watchdogTimeoutMs } = frame;
  const { commandTimeoutMs } = storeOptions;
  const [holder, waiter] = twoOf(frame);
  const meets = dice.pick(['extend', 'release', 'force', 'suspend'] as const);
  const isFixed = meets === 'extend' || dice.happens(0.3);
  const leaseMs = dice.int(4 * commandTimeoutMs, 6 * commandTimeoutMs + 2000);
  const validMs = isFixed ? leaseMs : watchdogTimeoutMs;
  const renewal = messageSince(frame, 'acquired', { message: messages.renew, of: holder });
  const holdMs = dice.scale(5, 2 * commandTimeoutMs);
  const overlaps =
    dice.happens(0.5) || meets === 'suspend'
      ? [{ when: renewal, act: { do: 'hold', ms: holdMs } } as const]
      : late(frame, renewal, holdMs);
  // A call whose lock was lost asks for it again, and works on.
  const again = askingOf(frame, { options: { waitMs: 10_000 }, work: [{ do: 'sleep', ms: 200 }] });
  const meeting: readonly FaultPlan[] = {
    extend: [],
    release: [{ when: renewal, afterMs: 2, act: { do: 'call', who: holder, call: again } } as const],
    force: [
      { when: renewal, afterMs: dice.scale(1, holdMs), act: { do: 'force', who: waiter, key } } as const,
    ],
    suspend: [
      {
        when: renewal,
        afterMs: dice.scale(1, holdMs),
        act: { do: 'suspend', who: holder, ms: validMs + dice.int(10, 2000) },
      } as const,
    ],
  }[meets];
  return {
    calls: [
      callOf(frame, {
        process: holder,
        ...(isFixed && { options: { leaseMs } }),
        work: workOf(frame, { meets, leaseMs, validMs }),
      }),
      callOf(frame, {
        process: waiter,
        afterMs: dice.int(50, Math.max(60, Math.floor(validMs / 4))),
        options: { waitMs: 'Infinity' },
        work: [{ do: 'sleep', ms: dice.scale(10, 1000) }],
      }),
    ],
    faults: [...overlaps, ...meeting],
  };
}

interface Meeting {
  readonly meets: 'extend' | 'release' | 'force' | 'suspend';
  readonly leaseMs: number;
  readonly validMs: number;
}

function workOf(frame: SceneFrame, { meets, leaseMs, validMs }: Meeting): readonly Step[] {
  const { dice } = frame;
  const { commandTimeoutMs } = frame.storeOptions;
  const sleep = (ms: number): Step => ({ do: 'sleep', ms });
  if (meets === 'release') return [sleep(Math.floor(validMs / 3) + dice.scale(1, commandTimeoutMs))];
  if (meets !== 'extend') return [sleep(2 * validMs)];
  const lessMs = dice.int(Math.floor(leaseMs / 2), leaseMs);
  const extend = (ms: number): Step => ({ do: 'extend', ms });
  const changes = dice.pick([
    [lessMs, 2 * leaseMs],
    [2 * leaseMs, lessMs],
    [lessMs, leaseMs],
  ] as const);
  const after = [sleep(leaseMs), sleep(lessMs)];
  const beforeMs = dice.scale(1, leaseMs / 4);
  if (dice.happens(0.5)) return [sleep(beforeMs), ...changes.map(extend), ...after];
  // Both are under way at once.
  const call = askingOf(frame, {
    options: { waitMs: 1000 },
    work: [sleep(beforeMs), extend(changes[0]), ...after],
  });
  return [{ do: 'beside', call }, sleep(beforeMs + dice.int(0, 5)), extend(changes[1]), ...after];
}
