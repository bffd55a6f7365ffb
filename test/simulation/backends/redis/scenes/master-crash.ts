import type { CallPlan, FaultPlan } from '../../../plan/plan.js';
import type { Scene, SceneFrame } from '../../../plan/scene.js';
import { callOf, messageSince, twoOf } from '../../../plan/scenes/aims.js';

/** A lock is granted, and the server crashes right after that. */
export function masterCrash(frame: SceneFrame): Scene {
  const { dice, key, servers } = frame;
  const [first, second] = twoOf(frame);
  const { calls, faults, holder } = dice.pick([alone, byNotification, together, recounted, recounted])(
    frame,
    first,
    second,
  );
  const afterMs = dice.happens(0.6) ? 0 : dice.scale(1, 300);
  const crash: FaultPlan = {
    when: { event: 'acquired', nth: 1, of: holder, key },
    ...(afterMs > 0 && { afterMs }),
    act: { do: 'crash server', server: dice.int(0, servers - 1), ms: dice.scale(1, 300) },
  };
  return { calls, faults: [...faults, crash] };
}

interface Granted extends Scene {
  readonly holder: number;
}

type Grants = (frame: SceneFrame, first: number, second: number) => Granted;

const alone: Grants = (frame, holder) => ({ calls: [longCall(frame, holder)], faults: [], holder });

const byNotification: Grants = (frame, first, holder) => {
  const workMs = frame.dice.scale(20, 200);
  const before = callOf(frame, { process: first, work: [{ do: 'sleep', ms: workMs }] });
  return {
    calls: [before, { ...longCall(frame, holder), atMs: frame.atMs + frame.dice.int(1, workMs) }],
    faults: [],
    holder,
  };
};

const together: Grants = (frame, holder) => ({
  calls: [{ ...longCall(frame, holder), keys: [frame.key, `${frame.key} too`] }],
  faults: [],
  holder,
});

/** While replicas are counted for another key its connection breaks, so that those of its own grant are counted on the next one. */
const recounted: Grants = (frame, holder) => {
  const { dice, key } = frame;
  const another = callOf(frame, {
    process: holder,
    keys: [`${key} before`],
    work: [{ do: 'sleep', ms: 300 }],
  });
  const call = { ...longCall(frame, holder), atMs: frame.atMs + dice.scale(1, 30) };
  const when = messageSince(frame, 'asked', { message: 're:acquire', of: holder, nth: dice.pick([1, 1, 2]) });
  return {
    calls: [another, call],
    faults: [{ when, afterMs: dice.scale(1, 100), act: { do: 'reset', who: holder } }],
    holder,
  };
};

function longCall(frame: SceneFrame, process: number): CallPlan {
  const work = [{ do: 'sleep', ms: frame.watchdogTimeoutMs } as const];
  return callOf(frame, { process, options: { waitMs: 'Infinity' }, work });
}
