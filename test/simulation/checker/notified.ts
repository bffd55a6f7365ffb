import { isSleepHidden } from '../history/hidden-sleep.js';
import type { History, HoldRecord, Violation } from '../history/history.js';
import { mayBeTaken } from '../history/taken.js';
import { conflicts } from './exclusion.js';
import { isLost } from './lost-leases.js';

/** A timer tells the holder, and the library looks at its clocks at least every second, because its machine may have slept. */
const NOTICED_WITHIN_MS = 1100;

/**
 * docs/guarantees.md, safety: the signal of a lock aborts when the lock is lost, so that work which listens to nothing else stops. A
 * record of a hold ends when its signal aborts, so it must not go on for long when another was granted the lock.
 *
 * @param toldWithinMs of a lock that the servers have lost or given away, while nothing else is disturbed
 */
export function checkNotified(history: History, toldWithinMs = Infinity): readonly Violation[] {
  return history.holds.flatMap((hold) => {
    const { call, process, key, from, signalledAt = Infinity } = hold;
    const endedAt = Math.min(hold.endedAt ?? history.endedAt, signalledAt);
    const next = history.holds.find(
      (it) =>
        it.key === key &&
        it.from > from &&
        it.from + NOTICED_WITHIN_MS < endedAt &&
        (it.call !== call || it.process !== process) &&
        conflicts(hold, it) &&
        it.samples.some(({ validForMs }) => validForMs > 0),
    );
    if (!next) return [];
    const span = { from: next.from, to: next.from + NOTICED_WITHIN_MS };
    const isGone = (it: HoldRecord): boolean =>
      isLost(history, it, span, toldWithinMs) || mayBeTaken(history, it, span, toldWithinMs);
    if (isGone(hold) || isGone(next) || hasPaused(history, process, span)) return [];
    const lateMs = Math.round(endedAt - next.from);
    const text = `call ${call} of ${process} is not told by its signal that it has lost ${key}, ${lateMs} ms after call ${next.call} of ${next.process} was granted it`;
    return [{ rule: 'loss', text }];
  });
}

/** It stood still, or one of its clocks was set, so that its timers are late. */
function hasPaused(
  history: History,
  process: string,
  span: { readonly from: number; readonly to: number },
): boolean {
  const isNear = history.pauses.some(
    (it) => it.process === process && it.from <= span.to && it.to + NOTICED_WITHIN_MS >= span.from,
  );
  return isNear || isSleepHidden(history, process, span.from);
}
