import { UNCONFIRMED_MS } from '../../../libs/distributed-lock/src/document/document.js';
import { leaseMargin } from '../../../libs/distributed-lock/src/port/timing.js';
import { hiddenSleeps } from '../history/hidden-sleep.js';
import type { History, HoldRecord, Violation } from '../history/history.js';
import { COST_NO_LOCK } from './harmless.js';

/** What happened before may still be felt while connections are replaced. */
const REPAIR_MS = 5000;
/** The reply to a request for the lock is under way, and a grant by notification is confirmed by a renewal. */
const ROUND_TRIPS = 3;
const SLACK_MS = 5;
/** A key is read, and then written. */
const ROUND_TRIPS_PER_KEY = 2;
/** A write is repeated when other clients were first, and so often that takes turns with theirs. */
const ROUND_TRIPS_PER_COMMAND = 5;

interface Times {
  readonly roundTripMs: number;
  readonly commandTimeoutMs: number;
}

/**
 * docs/guarantees.md, fixed leases: the lease lasts for `leaseMs`, less the margin and the time that the store took to answer, whatever
 * is renewed. `extend` alone ends it sooner.
 */
export function checkEarlyEnd(history: History, times: Times): readonly Violation[] {
  const { roundTripMs } = times;
  return history.holds.flatMap((hold) => {
    const { call, process, key, leaseMs, from, lostBy, endedAt = history.endedAt } = hold;
    if (leaseMs === undefined || lostBy !== 'expired' || hold.isExtended || call.includes('.')) return [];
    const answerMs = (ROUND_TRIPS + ROUND_TRIPS_PER_KEY * keysBeside(history, hold)) * roundTripMs;
    const leastMs = 0.99 * (leaseMs - leaseMargin(leaseMs)) - answerMs - SLACK_MS;
    // A call for several keys has lost them all with the first one.
    const isOfSeveral = history.holds.some((it) => it !== hold && it.call === call && it.process === process);
    if (endedAt - from >= leastMs || isOfSeveral || isDisturbed(history, hold)) return [];
    if (mayStayUnconfirmed(hold, endedAt, times)) return [];
    const text = `call ${call} of ${process} lost ${key} after ${Math.round(endedAt - from)} ms, as if its lease of ${leaseMs} ms had run out`;
    return [{ rule: 'loss', text }];
  });
}

/** How many keys other calls of its process asked for or gave back while it waited: one connection executes its requests in order. */
function keysBeside({ calls, holds }: History, { call, process, from }: HoldRecord): number {
  const askedAt = calls.find((it) => it.call === call && it.process === process)?.askedAt ?? from;
  const isBeside = (it: { readonly call: string; readonly process: string }, at: number, end: number) =>
    it.process === process && it.call !== call && at <= from && end >= askedAt;
  const asked = calls.filter((it) => isBeside(it, it.askedAt, it.settledAt ?? Infinity));
  const ended = holds.filter((it) => it.endedAt !== undefined && isBeside(it, it.endedAt, it.endedAt));
  return asked.reduce((sum, { keys }) => sum + keys.length, ended.length);
}

/**
 * docs/guarantees.md, liveness: the write that confirms a grant beside other holders fails if one of them writes first, and with slow round
 * trips several may do so within the second that it has.
 */
function mayStayUnconfirmed({ claim, from }: HoldRecord, endedAt: number, times: Times): boolean {
  const { roundTripMs, commandTimeoutMs } = times;
  const isSlow = roundTripMs * ROUND_TRIPS_PER_COMMAND > commandTimeoutMs;
  return isSlow && claim !== 'exclusive' && endedAt - from <= UNCONFIRMED_MS;
}

function isDisturbed(
  history: History,
  { process, call, from, endedAt = history.endedAt }: HoldRecord,
): boolean {
  const { pauses, disturbances, calls } = history;
  const askedAt = calls.find((it) => it.call === call && it.process === process)?.askedAt ?? from;
  return (
    pauses.some((it) => it.process === process && it.from <= endedAt && it.to >= askedAt) ||
    // The library counts such a sleep when it finds it, and so for a lease that began after it.
    hiddenSleeps(history, process).some((it) => it.from <= endedAt && it.to >= askedAt) ||
    disturbances.some(
      (it) =>
        !COST_NO_LOCK.includes(it.kind) &&
        (it.process ?? process) === process &&
        it.at <= endedAt &&
        (it.kind === 'lose' || Math.max(it.at, it.to) + REPAIR_MS >= askedAt),
    )
  );
}
