import { processesOf } from '../history/felt.js';
import type { CallRecord, Disturbance, History, Violation } from '../history/history.js';
import { guardedTimes } from './guarded-times.js';
import { COST_A_CONNECTION, COST_NO_LOCK } from './harmless.js';

/** Rechecks, reconnects and repeated releases make good by then what was lost, held or paused. */
const REPAIR_MS = 5000;
/** After these the leases of nobody who is gone are waited for. */
const LEAVE_NOTHING = ['hold', 'cut', ...COST_A_CONNECTION, ...COST_NO_LOCK];
const SLACK_MS = 50;
/** A recheck must not be taken for a hand-off. */
const RECHECK_MS = 1000;
/** A first request waits for a connection and its handshake. */
const HANDSHAKES = 3;

export interface HandOffTimes {
  /** How long a release and the grant that follows from it are under way at most. */
  readonly handOffMs: number;
  readonly commandTimeoutMs: number;
  /** The longest lease or minimum hold that may be left of somebody who is gone. */
  readonly longestMs: number;
  /** `restartGuardMs` of the stores; default 0. */
  readonly guardMs?: number;
}

/**
 * docs/guarantees.md, liveness: a release grants the lock to one who waits. While nothing is disturbed that takes some
 * messages, and no lease need expire for it.
 */
export function checkHandOff(history: History, times: HandOffTimes): readonly Violation[] {
  const mostMs = times.handOffMs + SLACK_MS;
  if (mostMs >= RECHECK_MS) return [];
  const busyTimesOf = busyTimesByKey(history, times);
  return history.calls.flatMap((call) => {
    const { askedAt, settledAt = history.endedAt, keys, waitMs } = call;
    const [key = ''] = keys;
    if (keys.length > 1 || call.isCrashed || waitMs === 0) return [];
    const busy = busyTimesOf(key).filter(({ to, from }) => to > askedAt && from < settledAt);
    let freeSince = askedAt;
    for (const { from, to } of [...busy, { from: settledAt, to: settledAt }]) {
      const freeMs = Math.round(from - freeSince);
      const isFirst = freeSince === askedAt;
      if (freeMs > (isFirst ? HANDSHAKES : 1) * mostMs) return [broken(call, key, freeMs, freeSince)];
      freeSince = Math.max(freeSince, to);
    }
    return [];
  });
}

function broken({ call, process }: CallRecord, key: string, ms: number, since: number): Violation {
  const text = `call ${call} of ${process} waits for ${key}, which has been free for ${ms} ms from ${Math.round(since)} on`;
  return { rule: 'hand-off', text };
}

interface Time {
  readonly from: number;
  readonly to: number;
}

/** `busyTimes` of each key, once. */
export function busyTimesByKey(history: History, times: HandOffTimes): (key: string) => readonly Time[] {
  const found = new Map<string, readonly Time[]>();
  return (key) => {
    const known = found.get(key) ?? busyTimes(history, key, times);
    found.set(key, known);
    return known;
  };
}

/** When somebody has the key, or something else explains that nobody gets it. */
export function busyTimes(
  history: History,
  key: string,
  { handOffMs, commandTimeoutMs, longestMs, guardMs = 0 }: HandOffTimes,
): readonly Time[] {
  const { holds, calls, pauses, disturbances, endedAt } = history;
  const repairMs = REPAIR_MS + 4 * commandTimeoutMs;
  const involved = processesOf(history, key, endedAt);
  const isForced = disturbances.some((it) => it.kind === 'force' && it.key === key);
  const isHarmless = ({ kind }: Disturbance) => LEAVE_NOTHING.includes(kind);
  return [
    ...holds
      .filter((it) => it.key === key)
      .map(({ from, endedAt: to = endedAt, lockedUntil = to, holdAtLeastMs = 0, end, lostBy }) => ({
        from,
        // Nothing tells a waiter that a minimum hold is over, but its next recheck.
        to:
          Math.max(
            lockedUntil,
            from + holdAtLeastMs + (holdAtLeastMs > 0 ? RECHECK_MS : 0),
            // A release waits until the grant is confirmed that a notification has brought.
            from + handOffMs / 2,
          ) + (end === 'released' || (isForced && lostBy === 'taken') ? 0 : longestMs),
      })),
    // One that has some of its keys, and waits for the others.
    ...calls
      .filter(({ keys }) => keys.length > 1 && keys.includes(key))
      .map(({ askedAt, settledAt = endedAt }) => ({ from: askedAt, to: settledAt + longestMs })),
    ...guardedTimes(history, guardMs),
    ...pauses
      .filter(({ process }) => involved.has(process))
      .map(({ from, to }) => ({ from, to: to + longestMs + repairMs })),
    ...disturbances
      .filter(({ kind, process }) => kind !== 'force' && (process === undefined || involved.has(process)))
      .map((it) => ({
        from: it.at,
        // A connection that is silent for good brings no notification, and rechecks have to do.
        to:
          it.kind === 'lose' ? endedAt : Math.max(it.at, it.to) + repairMs + (isHarmless(it) ? 0 : longestMs),
      })),
    // From when it is executed on it has freed the key.
    ...disturbances
      .filter((it) => it.kind === 'force' && it.key === key)
      .map(({ at, executedBy = endedAt }) => ({ from: at, to: executedBy })),
  ].toSorted((a, b) => a.from - b.from);
}
