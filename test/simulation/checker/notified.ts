import { hiddenSleeps } from '../history/hidden-sleep.js';
import type { History, HoldRecord, Violation } from '../history/history.js';
import { mayBeTaken } from '../history/taken.js';
import { conflicts } from './exclusion.js';
import { isLost } from './lost-leases.js';

/** A timer tells the holder, and the library looks at its clocks at least every second, because its machine may have slept. */
const NOTICED_WITHIN_MS = 1100;
/** A renewal is answered, or fails, and the next one is. */
const COMMANDS = 3;

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
        // One with a smaller token was granted before, and let in later: it waited for another key of its list.
        it.token >= hold.token &&
        it.from + NOTICED_WITHIN_MS < endedAt &&
        (it.call !== call || it.process !== process) &&
        conflicts(hold, it) &&
        it.samples.some(({ validForMs }) => validForMs > 0),
    );
    if (!next) return [];
    const span = { from: next.from, to: next.from + NOTICED_WITHIN_MS };
    const isGone = (it: HoldRecord): boolean =>
      isLost(history, it, span, toldWithinMs) || mayBeTaken(history, it, span, toldWithinMs);
    if (isGone(hold) || isGone(next) || endedAt <= mustNoticeBy(history, hold, next.from)) return [];
    const lateMs = Math.round(endedAt - next.from);
    const text = `call ${call} of ${process} is not told by its signal that it has lost ${key}, ${lateMs} ms after call ${next.call} of ${next.process} was granted it`;
    return [{ rule: 'loss', text }];
  });
}

/**
 * Its timers are late for as long as it stands still. After a sleep, or if one of its clocks was set, it may ask the store, so that what
 * keeps its messages delays it, too.
 */
function mustNoticeBy(history: History, { process, from }: HoldRecord, lostAt: number): number {
  const own = history.pauses.filter((it) => it.process === process && it.to >= from);
  const isUnsure = own.some(
    ({ kind, from: at }) => kind !== 'stop' && kind !== 'block' && at <= lostAt + NOTICED_WITHIN_MS,
  );
  const answerMs = COMMANDS * history.commandTimeoutMs;
  const kept = history.disturbances
    .filter((it) => isUnsure && it.kind !== 'force' && (it.process ?? process) === process)
    .map((it) => ({ from: it.at, to: it.kind === 'lose' ? Infinity : Math.max(it.at, it.to) + answerMs }));
  const delays = [...own, ...hiddenSleeps(history, process), ...kept].toSorted((a, b) => a.from - b.from);
  let by = lostAt + NOTICED_WITHIN_MS + (isUnsure ? answerMs : 0);
  for (const { from: at, to } of delays) if (at <= by) by = Math.max(by, to + NOTICED_WITHIN_MS);
  return by;
}
