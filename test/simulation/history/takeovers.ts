import { askedSince } from './asked-since.js';
import { haveFelt, havePaused } from './felt.js';
import { count } from '../summary/counts.js';
import type { CallRecord, History, HoldRecord } from './history.js';
import type { Actor } from './stage.js';
import { mustBeTold } from './told.js';

/** Calls that take a key over, and their graces. */
export function takersOf({ calls }: History, key: string): readonly Taker[] {
  return calls.filter((call): call is Taker => call.graceMs !== undefined && call.keys.includes(key));
}

/** True times, in ms. */
interface Span {
  readonly from: number;
  readonly to: number;
}

export type Taker = CallRecord & { readonly graceMs: number };

/** docs/guarantees.md, a takeover: the lock waits for its holder for so long beyond the grace. */
export function maxNoticeMs(commandTimeoutMs: number): number {
  return 250 + 2 * commandTimeoutMs;
}

/** When a takeover comes to force, by the clock of its process. That of the holder may be slower by 1 %, and its timers late. */
export function forcedAfterMs(graceMs: number, commandTimeoutMs: number): number {
  return graceMs + Math.min(graceMs / 5, 20 + graceMs / 100) + maxNoticeMs(commandTimeoutMs);
}

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
      // It names the owner, which has asked for the key while the call still waits.
      (it.call !== hold.call || it.process !== process) && endOf(it) >= since,
  );
}

/**
 * docs/guarantees.md, a takeover: the lock is freed by force when its holder must have been told and its grace must be over. So only a
 * holder that was stopped or blocked, or did not reach its store since the call asked, may believe in its lock then. A watchdog learns
 * of it by its next renewal.
 */
export function mayBeForcedOut(history: History, hold: HoldRecord, span: Span, withinMs: number): boolean {
  const isExcused = announcedTo(history, hold).some((taker) => {
    if (earliestForceOf(history, taker) > Math.min(span.from, endOf(taker))) return false;
    const isLate = history.isToldLate || isKeptFrom(history, hold, noticeOf(taker, hold, span.from));
    return isLate && !mustBeTold(history, hold, { since: endOf(taker), now: span.to, withinMs });
  });
  if (isExcused) count('excuse: forced out by a takeover');
  return isExcused;
}

/** The call waits for as long as its notice may take. Only the rest of a minimum hold, which has no process, is freed before that. */
export function earliestForceOf({ commandTimeoutMs }: History, { askedAt, graceMs }: Taker): number {
  return askedAt + 0.99 * forcedAfterMs(graceMs, commandTimeoutMs) - 2;
}

/** While the notice is under way. From when the holder is told on, nothing but its own clock ends its grace. */
function noticeOf({ askedAt }: Taker, { toldAt = Infinity }: HoldRecord, now: number): Span {
  return { from: askedAt, to: toldAt < askedAt ? now : Math.min(toldAt, now) };
}

/** The process of the holder may not have got the notice, or not have run since. Calls of others delay their own force alone. */
function isKeptFrom(history: History, { process }: HoldRecord, span: Span): boolean {
  const own = new Set([process]);
  return havePaused(history, own, span) || haveFelt(history, own, span);
}

/** From then on it takes nothing over. */
export function endOf({ settledAt, crashedAt }: Taker): number {
  return settledAt ?? crashedAt ?? Infinity;
}

export function nowOf({ process: { trueNow } }: Actor): Span {
  return { from: trueNow, to: trueNow };
}
