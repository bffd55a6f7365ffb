import { LockWaitTimeoutError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { CallRecord, History, Violation } from '../history/history.js';
import { busyTimesByKey, type HandOffTimes } from './hand-off.js';

/** Rechecks and repeated releases make good by then what was lost, held or paused. */
const REPAIR_MS = 5000;

/**
 * docs/guarantees.md, several keys: "not free" is true. A call that asks once is refused only if somebody had the key, waited
 * for it or asked for it meanwhile.
 *
 * @param times `handOffMs` is how long a release may be under way
 */
export function checkRefusal(history: History, times: HandOffTimes): readonly Violation[] {
  const { handOffMs } = times;
  const busyTimesOf = busyTimesByKey(history, times);
  return history.calls.filter(isRefused).flatMap((call) => {
    const { askedAt, settledAt = history.endedAt, keys } = call;
    const [key = ''] = keys;
    if (keys.length > 1) return [];
    const asking = history.calls
      .filter((it) => it !== call && it.keys.includes(key))
      .map((it) => ({ from: it.askedAt, to: it.settledAt ?? history.endedAt }));
    const inTheWay = [...busyTimesOf(key), ...asking].find(
      ({ from, to }) => from <= settledAt && to + handOffMs >= askedAt,
    );
    if (inTheWay) return [];
    const text = `call ${call.call} of ${call.process} is told that ${key} is not free, and nobody has it or waits for it`;
    return [{ rule: 'refusal', text }];
  });
}

/**
 * docs/guarantees.md, etcd and ZooKeeper: that is true on a server that lags behind, too. Nobody is refused for an owner that had
 * given the key up before it asked. A restored backup may bring that owner back. And a process refuses without asking: behind a
 * caller of its own that waits, for the holder that the store has named last, and for a hold of its own until it learns of its loss.
 */
export function checkStaleRefusal(history: History): readonly Violation[] {
  const { calls, holds, disturbances } = history;
  if (disturbances.some(({ kind }) => kind === 'forget')) return [];
  return calls.flatMap((asking) => {
    const { call, process, keys, holdersThen, error, askedAt } = asking;
    const [key = ''] = keys;
    if (!holdersThen || keys.length > 1 || !(error instanceof LockWaitTimeoutError)) return [];
    const isBehind = calls.some(
      (it) =>
        it !== asking &&
        it.process === process &&
        it.keys.includes(key) &&
        it.askedAt <= askedAt &&
        (it.settledAt ?? Infinity) >= askedAt,
    );
    if (isBehind) return [];
    const { holder } = error;
    const hasHeld = holds.some(
      ({ owner, key: held, from, process: by, endedAt = Infinity }) =>
        owner === holder && held === key && from < askedAt && (by !== process || endedAt < askedAt),
    );
    if (holder === undefined || holdersThen.includes(holder) || !hasHeld) return [];
    const text = `call ${call} of ${process} is told that ${holder} has ${key}, which had given it up before`;
    return [{ rule: 'refusal', text }];
  });
}

/**
 * docs/guarantees.md, liveness: a call is refused by `maxWaiting` only if so many waited for the key as it is told. Those that have
 * left count until the store has heard of it, and those of a process that has paused or crashed until it drops them.
 */
export function checkLimit(
  history: History,
  { handOffMs, commandTimeoutMs }: HandOffTimes,
): readonly Violation[] {
  const { calls, pauses, disturbances, endedAt } = history;
  return calls.flatMap((call) => {
    const { keys, error, askedAt, settledAt = endedAt } = call;
    if (!(error instanceof LockWaitTimeoutError) || error.waiting === undefined) return [];
    const { waiting } = error;
    const isDisturbed = [...pauses, ...disturbances.map(({ at: from, to }) => ({ from, to }))].some(
      ({ from, to }) => from <= settledAt && to + REPAIR_MS + 4 * commandTimeoutMs >= askedAt,
    );
    if (isDisturbed) return [];
    const others = calls.filter(
      (it) =>
        it !== call &&
        it.keys.some((key) => keys.includes(key)) &&
        it.askedAt <= settledAt &&
        (it.settledAt ?? endedAt) + handOffMs >= askedAt,
    );
    if (others.length >= waiting) return [];
    const text = `call ${call.call} of ${call.process} is told that ${waiting} wait for ${keys.join('+')}, and there are ${others.length}`;
    return [{ rule: 'refusal', text }];
  });
}

function isRefused({ waitMs, isRefused: isTold, error }: CallRecord): boolean {
  const isLimited = error instanceof LockWaitTimeoutError && error.waiting !== undefined;
  return isLimited || (waitMs === 0 && (isTold === true || error instanceof LockWaitTimeoutError));
}
