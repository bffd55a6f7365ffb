import type { Dice } from '../kernel/dice.js';
import type { CallPlan, PassStep } from './plan.js';

/** One of so many calls that may do it passes its lock on. */
const EVERY = 3;

/** Some calls pass their lock on to one or two other processes at the end of their work, in plans that do so. */
export function drawPasses(dice: Dice, calls: readonly CallPlan[], processes: number): readonly CallPlan[] {
  if (processes < 2 || !dice.happens(0.35)) return calls;
  return calls.map((call) =>
    mayPass(call) && dice.happens(1 / EVERY)
      ? { ...call, work: [...call.work, drawPass(dice, call.process, processes)] }
      : call,
  );
}

/** The library refuses to detach one of several keys, and one with a minimum hold. */
function mayPass({ how, keys, options }: CallPlan): boolean {
  const isOwnWork = how === 'withLock' || how === 'acquire' || how === 'tryAcquire' || how === 'unshared';
  return isOwnWork && keys.length === 1 && options.holdAtLeastMs === undefined;
}

function drawPass(dice: Dice, process: number, processes: number): PassStep {
  const others = Array.from({ length: processes }, (_, i) => i).filter((it) => it !== process);
  const first = dice.pick(others);
  const holdAtLeastMs = dice.scale(200, 10_000);
  return {
    do: 'pass on',
    to: dice.happens(0.4) ? [...new Set([first, dice.pick(others)])] : [first],
    holdAtLeastMs,
    // Some come at the end of the lease, or after it.
    afterMs: dice.happens(0.3)
      ? dice.int(Math.floor(0.8 * holdAtLeastMs), Math.ceil(1.1 * holdAtLeastMs))
      : dice.scale(1, 500),
    workMs: dice.scale(1, 4000),
  };
}
