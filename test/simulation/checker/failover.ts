import type { History, HoldRecord, Violation } from '../history/history.js';
import type { Loss, LostLease } from '../history/loss.js';

/** Servers count in whole ms. */
const SLACK_MS = 2;

interface FailoverTimes {
  readonly watchdogTimeoutMs: number;
  readonly earlyMs: number;
  readonly answerMs: number;
}

/**
 * docs/guarantees.md, replicas: a replica that must have each grant keeps it when it is promoted. It may lack renewals, so it
 * keeps a lock for as long as its owner has believed at one time since it was granted, and, where renewals came in time, ends
 * it a third of the lease early at most. A caller whose process has paused since it asked, or whose lease is shorter than an answer
 * may take, may be let in by a renewal.
 *
 * @param earlyMs that third, and what a renewal takes to the replica
 * @param answerMs how long a grant and the count of its replicas may take
 */
export function checkFailover(
  history: History,
  { watchdogTimeoutMs, earlyMs, answerMs }: FailoverTimes,
): readonly Violation[] {
  const covered = (history.losses ?? []).filter(({ isCovered }) => isCovered);
  return covered.flatMap((loss) =>
    loss.leases.flatMap((lease) => {
      const holds = history.holds.filter((it) => it.key === lease.key && it.owner === lease.owner);
      const holding = holds.find((it) => believesAt(it, loss));
      if (!holding) return [];
      const isByRenewal = (holding.leaseMs ?? watchdogTimeoutMs) < answerMs || hasPaused(history, holding);
      const least = isByRenewal ? -Infinity : leastBelief(holds, loss);
      const isRenewed = isRenewedInTime(history, holding, loss.at - watchdogTimeoutMs, loss.at);
      const mustUntil = Math.max(
        least > loss.to ? least : -Infinity,
        isRenewed ? lease.until - earlyMs : -Infinity,
      );
      if (Math.max(lease.keptUntil, loss.to) >= mustUntil - SLACK_MS) return [];
      return [{ rule: 'failover', text: describe(holding, lease, loss) }];
    }),
  );
}

function believesAt({ from, endedAt = Infinity, samples }: HoldRecord, { at }: Loss): boolean {
  const last = samples.findLast((it) => it.at <= at);
  return from <= at && endedAt > at && last !== undefined && last.until > at;
}

function leastBelief(holds: readonly HoldRecord[], loss: Loss): number {
  const samples = holds.flatMap((it) => it.samples).filter(({ at }) => at <= loss.at);
  return Math.min(...samples.map(({ until }) => until));
}

/** Since it asked, and before it was let in. */
function hasPaused({ pauses, calls }: History, { process, call, from }: HoldRecord): boolean {
  const askedAt = calls.find((it) => it.call === call && it.process === process)?.askedAt ?? from;
  return pauses.some((it) => it.process === process && it.from <= from && it.to >= askedAt);
}

/** By a watchdog that nothing has kept from it. */
function isRenewedInTime(
  { pauses, disturbances, holds }: History,
  { process, key, leaseMs, call }: HoldRecord,
  from: number,
  to: number,
): boolean {
  if (leaseMs !== undefined || call.includes('.')) return false;
  // Of one owner, callers with fixed leases and callers under the watchdog may follow each other.
  if (holds.some((it) => it.process === process && it.key === key && it.leaseMs !== undefined)) return false;
  return (
    !pauses.some((it) => it.process === process && it.from <= to && it.to >= from) &&
    !disturbances.some((it) => it.at < to && Math.max(it.at, it.to) >= from)
  );
}

function describe({ call, process, key }: HoldRecord, { keptUntil }: LostLease, { at, to }: Loss): string {
  const kept = keptUntil > to ? `keeps it for ${Math.round(keptUntil - to)} ms` : 'does not have it';
  return `call ${call} of ${process} has ${key} when the master crashes at ${Math.round(at)}, and the replica that is promoted ${kept}`;
}
