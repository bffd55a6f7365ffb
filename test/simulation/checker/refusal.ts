import { LockWaitTimeoutError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { CallRecord, History, Violation } from '../history/history.js';
import { busyTimes, type HandOffTimes } from './hand-off.js';

/**
 * docs/guarantees.md, several keys: "not free" is true. A call that asks once is refused only if somebody had the key, waited
 * for it or asked for it meanwhile.
 *
 * @param times `handOffMs` is how long a release may be under way
 */
export function checkRefusal(history: History, times: HandOffTimes): readonly Violation[] {
  const { handOffMs } = times;
  return history.calls.filter(isRefused).flatMap((call) => {
    const { askedAt, settledAt = history.endedAt, keys } = call;
    const [key = ''] = keys;
    if (keys.length > 1) return [];
    const asking = history.calls
      .filter((it) => it !== call && it.keys.includes(key))
      .map((it) => ({ from: it.askedAt, to: it.settledAt ?? history.endedAt }));
    const inTheWay = [...busyTimes(history, key, times), ...asking].find(
      ({ from, to }) => from <= settledAt && to + handOffMs >= askedAt,
    );
    if (inTheWay) return [];
    const text = `call ${call.call} of ${call.process} is told that ${key} is not free, and nobody has it or waits for it`;
    return [{ rule: 'refusal', text }];
  });
}

function isRefused({ waitMs, isRefused: isTold, error }: CallRecord): boolean {
  return waitMs === 0 && (isTold === true || error instanceof LockWaitTimeoutError);
}
