import { askedSince } from './asked-since.js';
import { count } from '../summary/counts.js';
import type { CallRecord, History, HoldRecord } from './history.js';
import type { Actor } from './stage.js';
import { mustBeTold } from './told.js';

/** An announcement may be under way when its call gives up, and reach an owner that hands its lock on within its process. */
const UNDER_WAY_MS = 5000;
/** Connections are replaced by then, and a notice that was lost is repeated. */
const REPAIR_MS = 5000;
/** They keep no message from a holder. */
const HARMLESS = ['force', 'call', 'abort'];

/** Calls that take a key over, and their graces. */
export function takersOf({ calls }: History, key: string): readonly Taker[] {
  return calls.filter((call): call is Taker => call.graceMs !== undefined && call.keys.includes(key));
}

export type Taker = CallRecord & { readonly graceMs: number };

/** The earliest moment at which a holder that this call tells may have lost its lock, in true ms: clocks differ by less than 1 %. */
function earliestOf({ askedAt, graceMs }: Taker): number {
  return askedAt + 0.99 * graceMs - 2;
}

/** Whether a takeover that was announced to the owner of this hold may have ended it by then, or the rest of its minimum hold. */
export function mayBeTakenOver(history: History, hold: HoldRecord, at: number): boolean {
  const isExcused = announcedTo(history, hold).some((it) => earliestOf(it) <= at);
  if (isExcused) count('excuse: taken over');
  return isExcused;
}

function announcedTo(history: History, hold: HoldRecord): readonly Taker[] {
  const { process, key } = hold;
  const takers = takersOf(history, key);
  if (takers.length === 0) return [];
  // The store may have granted it long before its process could read that.
  const since = askedSince(history, hold);
  return takers.filter(
    (it) =>
      (it.call !== hold.call || it.process !== process) && (it.settledAt ?? Infinity) + UNDER_WAY_MS >= since,
  );
}

/**
 * docs/guarantees.md, a takeover: the lock is freed by force when its holder must have been told and its grace must be over. So only a
 * holder that was stopped or blocked, or did not reach its store since the call asked, may believe in its lock then. A watchdog learns
 * of it by its next renewal.
 */
export function mayBeForcedOut(
  history: History,
  hold: HoldRecord,
  span: { readonly from: number; readonly to: number },
  withinMs: number,
): boolean {
  const isExcused = announcedTo(history, hold).some((taker) => {
    if (earliestOf(taker) > span.from) return false;
    const isLate = history.isToldLate || isDisturbed(history, hold, { from: taker.askedAt, to: span.from });
    const since = taker.settledAt ?? Infinity;
    return isLate && !mustBeTold(history, hold, { since, now: span.to, withinMs });
  });
  if (isExcused) count('excuse: forced out by a takeover');
  return isExcused;
}

function isDisturbed(
  { disturbances, pauses }: History,
  { process }: HoldRecord,
  { from, to }: { readonly from: number; readonly to: number },
): boolean {
  return (
    pauses.some((it) => it.process === process && it.from <= to && it.to >= from) ||
    disturbances.some(
      (it) =>
        !HARMLESS.includes(it.kind) &&
        it.at <= to &&
        (it.kind === 'lose' || Math.max(it.at, it.to) + REPAIR_MS >= from),
    )
  );
}

export function nowOf({ process: { trueNow } }: Actor): { readonly from: number; readonly to: number } {
  return { from: trueNow, to: trueNow };
}
