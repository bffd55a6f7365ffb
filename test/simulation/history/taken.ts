import { askedSince } from './asked-since.js';
import type { Disturbance, History, HoldRecord } from './history.js';
import { count } from '../summary/counts.js';
import { mayBeForcedOut } from './takeovers.js';
import { mustBeTold } from './told.js';

/** A process reaches the servers again so long after what has kept it from them. */
const REPAIR_MS = 5000;

/** True times, in ms. */
interface Span {
  readonly from: number;
  readonly to: number;
}

/**
 * Whether the servers may have taken the lock from this hold, and its holder need not know it during `span`: by a force on its
 * key, by a takeover that its process cannot have heard of, or because they have forgotten it. Only a lock that its process had asked for by then can have been taken, and a watchdog
 * learns of it by its next renewal.
 *
 * @param withinMs how long that takes, while nothing else is disturbed
 */
export function mayBeTaken(history: History, hold: HoldRecord, span: Span, withinMs: number): boolean {
  if (mayBeForcedOut(history, hold, span, withinMs)) return true;
  return history.disturbances.some((it) => {
    const until = takesUntil(history, it, hold);
    if (until === undefined || span.from < it.at || askedSince(history, hold) > until) return false;
    const isExcused = !mustBeTold(history, hold, { since: until, now: span.to, withinMs });
    if (isExcused) count(`excuse: taken by ${it.kind}`);
    return isExcused;
  });
}

/** Whether the servers may have forgotten the token of `earlier` when they granted `later`. */
export function mayBeForgotten(history: History, earlier: HoldRecord, later: HoldRecord): boolean {
  return history.disturbances.some(
    (it) => isUntoldForget(history, it) && askedSince(history, earlier) <= it.at && later.from >= it.at,
  );
}

/** Whether a force takes the lock of this owner, and of whom it names none takes all. */
export function takes(
  force: Disturbance,
  { key, owner }: { readonly key: string; readonly owner?: string },
): boolean {
  return force.key === key && (force.owner ?? owner) === owner;
}

/** Until when it may have taken the lock of a hold, in true ms; `undefined` if it does not take it. */
function takesUntil(history: History, it: Disturbance, hold: HoldRecord): number | undefined {
  const { key } = hold;
  if (it.kind === 'force') return takes(it, hold) ? it.executedBy : undefined;
  return isUntoldForget(history, it) ? lastOldWriteAt(history, it.at, key) : undefined;
}

/**
 * docs/guarantees.md, a restored cluster: services that live on may write by what they have read before. A version may come again, so
 * that the release of a lock of that time, which is sent again until its process reaches the servers, may take a new one.
 */
export function lastOldWriteAt(history: History, forgottenAt: number, key: string): number {
  const { holds, disturbances } = history;
  const old = holds.filter(
    (it) =>
      it.key === key &&
      it.from <= forgottenAt &&
      releasedBy(history, it) >= forgottenAt &&
      it.end !== 'crashed',
  );
  const ends = old.map(({ process, endedAt = Infinity }) => {
    const kept = disturbances.filter((it) => it.kind !== 'force' && (it.process ?? process) === process);
    return Math.max(endedAt, ...kept.map((it) => Math.max(it.at, it.to))) + REPAIR_MS;
  });
  return Math.max(forgottenAt, ...ends);
}

/** A release that its process could not send is sent again as soon as it reaches the servers. */
function releasedBy({ disturbances }: History, { process, endedAt = Infinity }: HoldRecord): number {
  const kept = disturbances.filter(
    (it) =>
      it.kind !== 'force' &&
      (it.process ?? process) === process &&
      it.at <= endedAt + REPAIR_MS &&
      Math.max(it.at, it.to) >= endedAt,
  );
  return Math.max(endedAt, ...kept.map((it) => Math.max(it.at, it.to) + REPAIR_MS));
}

/** What the servers have lost then, their back end does not tell. */
export function isUntoldForget({ losses }: History, { kind }: Disturbance): boolean {
  return kind === 'forget' && !losses;
}
