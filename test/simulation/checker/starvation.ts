import type { History, Violation } from '../history/history.js';

/** Three rechecks, after which a silent waiter is dropped, one more, and what requests take. */
const RECHECKS_MS = 5000;

interface StarvationTimes {
  /** The longest lease or minimum hold that may be left of somebody who is gone. */
  readonly longestMs: number;
  readonly commandTimeoutMs: number;
  readonly roundTripMs: number;
}

/**
 * docs/guarantees.md, liveness: a key that nobody holds goes to one who waits, at the latest when the leases of the dead are
 * over and a recheck has come.
 */
export function checkStarvation(history: History, times: StarvationTimes): readonly Violation[] {
  const patienceMs = patienceOf(times);
  return history.calls.flatMap((call) => {
    const to = call.settledAt ?? history.endedAt;
    const [key] = call.keys;
    if (call.keys.length > 1 || call.isCrashed || to - call.askedAt < patienceMs) return [];
    const others = [
      ...history.holds
        .filter((it) => it.key === key)
        .map((it) => ({ from: it.from, to: it.endedAt ?? history.endedAt })),
      // It may have this key while it waits for its next one.
      ...history.calls
        .filter((it) => it !== call && it.keys.length > 1 && it.keys.includes(key as string))
        .map((it) => ({ from: it.askedAt, to: it.settledAt ?? history.endedAt })),
      ...history.pauses.map((it) => ({ from: it.from, to: it.to })),
      ...history.disturbances.map((it) => ({ from: it.at, to: it.to })),
      // docs/guarantees.md, replicas: a grant that too few of them have in time is given back, and asked for again.
      ...history.tooFewReplicas.map((at) => ({ from: at, to: at })),
    ].toSorted((a, b) => a.from - b.from);
    let freeSince = call.askedAt;
    for (const other of [...others, { from: to, to }]) {
      if (Math.min(other.from, to) - freeSince > patienceMs) {
        const ms = Math.round(Math.min(other.from, to) - freeSince);
        const text = `call ${call.call} of ${call.process} waits for ${key}, which nobody has for ${ms} ms`;
        return [{ rule: 'progress', text }];
      }
      freeSince = Math.max(freeSince, other.to);
    }
    return [];
  });
}

/** How long a waiter may have to wait for a key that nobody holds. */
export function patienceOf({ longestMs, commandTimeoutMs, roundTripMs }: StarvationTimes): number {
  return longestMs + RECHECKS_MS + 4 * (commandTimeoutMs + roundTripMs);
}
