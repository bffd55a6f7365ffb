import { leaseMargin } from '../../../libs/distributed-lock/src/port/timing.js';
import type { History, HoldRecord, Violation } from '../history/history.js';
import { mayBeTakenOver } from '../history/takeovers.js';
import { conflicts } from './exclusion.js';
import { isShareOf } from './shares.js';

const INITIAL_LEASE_MS = 1000;
/** A release waits for what its process has sent before, and is sent again. */
const RELEASE_COMMANDS = 4;
const RELEASE_ROUND_TRIPS = 2;

/** Clocks differ by less than 1 %, and a moment is rounded to ms. */
function leastMs({ holdAtLeastMs = 0 }: HoldRecord): number {
  return holdAtLeastMs * 0.99 - 2;
}

/**
 * docs/guarantees.md: after a release within `holdAtLeastMs`, and after a shutdown that has taken the lock, nobody else is granted the
 * key before that time is over. On a store with sessions it ends with the session of its client, if that ends before.
 */
export function checkMinimumHold(history: History, roundTripMs: number): readonly Violation[] {
  const { holds, calls, disturbances, pauses, expired, commandTimeoutMs } = history;
  return holds.flatMap((a, i) => {
    if (a.holdAtLeastMs === undefined || !leavesItsRest(a, roundTripMs) || a.claim === 'permits') return [];
    const until = a.from + leastMs(a);
    const { endedAt = until } = a;
    const isDisturbed = disturbances.some(
      ({ kind, at }) =>
        at <= until && (a.isShortened || ['force', 'forget', 'server clock', 'crash server'].includes(kind)),
    );
    // On a store with sessions it ends with that of its process, of which a pause before the grant has taken its part.
    const askedAt = calls.find(({ call }) => call === a.call)?.askedAt ?? a.from;
    // Once the release is executed its process has no part in it.
    const releasedBy = Math.min(until, endedAt + RELEASE_COMMANDS * commandTimeoutMs);
    const isPaused = pauses.some(
      (it) => it.process === a.process && it.from <= releasedBy && it.to >= askedAt,
    );
    const early = holds.slice(i + 1).find((b) => isAnother(a, b) && b.from < until);
    const hasExpired = expired.some(
      ({ client, at }) => a.owner?.startsWith(`${client}:`) && at >= askedAt && at <= until,
    );
    // A release that dies with its process leaves the initial lease, where no renewal has confirmed the grant.
    const isDead = disturbances.some(
      ({ kind, at }) => kind === 'crash' && at >= a.from && at <= endedAt + INITIAL_LEASE_MS,
    );
    if (!early || mayBeTakenOver(history, a, early.from) || isDisturbed || isPaused || hasExpired || isDead)
      return [];
    const after = Math.round(early.from - a.from);
    const text = `call ${early.call} of ${early.process} got ${a.key} ${after} ms after call ${a.call} of ${a.process}, which holds it for ${a.holdAtLeastMs} ms at least`;
    return [{ rule: 'minimum hold', text }];
  });
}

/** Its holder has released it, or its service, or the library when its fixed lease was over: in time, if the margin is long enough. */
function leavesItsRest({ end, lostBy, leaseMs = 0 }: HoldRecord, roundTripMs: number): boolean {
  const isInTime = lostBy === 'expired' && RELEASE_ROUND_TRIPS * roundTripMs < leaseMargin(leaseMs);
  return end === 'released' || lostBy === 'shutdown' || isInTime;
}

function isAnother(a: HoldRecord, b: HoldRecord): boolean {
  return a.key === b.key && a.call !== b.call && conflicts(a, b) && !isShareOf(a, b);
}
