import type { Asking, CallOptionsPlan, CallPlan, Step } from './plan.js';
import type { Frame } from './draw-calls.js';

/** Of calls that may take a lock over. */
const OFTEN = 0.07;

/** Some of these calls take their locks over, and sometimes two of different processes do so at once. */
export function drawTakeovers(frame: Frame, calls: readonly CallPlan[]): readonly CallPlan[] {
  const { dice, keys, processes } = frame;
  const mayBeTaken = (key: string): boolean =>
    keys.some((it) => it.key === key && (it.family === 'lock' || it.family === 'readers'));
  return calls.flatMap((call) => {
    if (!call.keys.every(mayBeTaken) || !dice.happens(OFTEN)) return [call];
    const taking = takingOver(frame, call);
    if (!dice.happens(0.3)) return [taking];
    const process = (call.process + 1) % processes.length;
    const work: readonly Step[] = [{ do: 'sleep', ms: dice.scale(1, 1000) }];
    const other = takingOver(frame, { ...call, process, service: 0, work });
    return [taking, { ...other, atMs: call.atMs + dice.scale(1, 200) }];
  });
}

function takingOver(frame: Frame, call: CallPlan): CallPlan {
  const { dice } = frame;
  const { maxWaiting: _limit, fair: _fair, mode, waitMs: _wait, ...options } = call.options;
  const { locked: _locked, ...plain } = call;
  const graceMs = dice.scale(10, 3000);
  const waitMs = dice.happens(0.4)
    ? 'Infinity'
    : call.keys.length * graceMs + dice.pick([1, dice.scale(10, 1000), 10_000, 10_000]);
  const claim: CallOptionsPlan = mode === undefined ? {} : { mode: 'exclusive' };
  return {
    ...plain,
    how: howOf(call.how),
    options: { ...options, ...claim, onBusy: 'takeover', graceMs, waitMs },
  };
}

/** A method with `@Locked` has an `onBusy` of its own, and `tryAcquire` waits for nobody. */
function howOf(how: Asking['how']): Asking['how'] {
  if (how === 'tryAcquire') return 'acquire';
  return how === 'handler' || how === 'method' ? 'withLock' : how;
}
