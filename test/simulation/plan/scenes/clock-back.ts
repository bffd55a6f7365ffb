import type { CallPlan, FaultPlan } from '../plan.js';
import type { Scene, SceneFrame } from '../scene.js';
import { askingOf, callOf, twoOf } from './aims.js';

/**
 * The clocks of the servers are set back while two readers hold. The first of them gives its tokens back when the other has left. Then one asks
 * for the lock alone that has seen no token of theirs, if there are three processes.
 */
export function clockBackAtReaders(frame: SceneFrame): Scene {
  const { dice, key, processes } = frame;
  const [first, second] = twoOf(frame);
  const others = Array.from({ length: processes }, (_, i) => i).filter((i) => i !== first && i !== second);
  const read = (process: number, afterMs: number, ms: number): CallPlan =>
    callOf(frame, { process, afterMs, options: { mode: 'shared' }, work: [{ do: 'sleep', ms }] });
  const writes = askingOf(frame, { options: { mode: 'exclusive', waitMs: 5000 } });
  return {
    calls: [read(first, 0, 900), read(second, 150, dice.int(200, 1000))],
    faults: [
      ...setBack(frame, { event: 'acquired', nth: 1, of: second, key }, dice.scale(1, 200)),
      {
        when: { event: 'ended', nth: 1, of: first, key },
        afterMs: dice.pick([0, dice.scale(1, 100)]),
        act: { do: 'call', who: others[0] ?? dice.pick([first, second]), call: writes },
      },
    ],
  };
}

/** A grant is on its way to a waiter, or being confirmed, when the clock of its machine or of the servers is set back. */
export function clockBackAtGrant(frame: SceneFrame): Scene {
  const { dice, key, latencyMs, watchdogTimeoutMs } = frame;
  const [holder, waiter] = twoOf(frame);
  const when = { event: 'ended' as const, nth: 1, of: holder, key };
  const afterMs = dice.scale(1, 6 * latencyMs);
  const ms = -dice.scale(50, 4 * watchdogTimeoutMs);
  const ofWaiter: FaultPlan = { when, afterMs, act: { do: 'clock', who: waiter, ms } };
  const work = (least: number, most: number) => [{ do: 'sleep' as const, ms: dice.int(least, most) }];
  return {
    calls: [
      // Two callers, so that the grant has tokens for hand-offs, and most of them are given back.
      callOf(frame, { process: holder, work: work(200, 500) }),
      callOf(frame, { process: holder, afterMs: 1, work: work(1, 50) }),
      callOf(frame, {
        process: waiter,
        afterMs: dice.scale(20, 200),
        work: work(watchdogTimeoutMs / 2, 2 * watchdogTimeoutMs),
      }),
      callOf(frame, { process: holder, afterMs: dice.int(600, 1500), options: { waitMs: 'Infinity' } }),
    ],
    faults: dice.happens(0.5) ? [ofWaiter] : setBack(frame, when, afterMs),
  };
}

function setBack(frame: SceneFrame, when: FaultPlan['when'], afterMs: number): readonly FaultPlan[] {
  const { dice, servers } = frame;
  return Array.from({ length: servers }, (_, server) => {
    return { when, afterMs, act: { do: 'server clock', server, ms: -dice.scale(500, 20_000) } };
  });
}
