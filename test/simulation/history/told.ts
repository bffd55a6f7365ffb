import { ROUND_MS } from '../../../libs/distributed-lock/src/lock/core/watchdog.js';
import type { Plan } from '../plan/plan.js';
import type { History, HoldRecord } from './history.js';

/** The next connection follows within about a second. */
const RECONNECT_MS = 1500;

/** A watchdog learns within so many ms that its lock is gone: by its next renewal, however often that must be sent. */
export function toldWithinMs({ watchdogTimeoutMs, storeOptions }: Plan): number {
  return watchdogTimeoutMs / 3 + 4 * storeOptions.commandTimeoutMs + RECONNECT_MS;
}

/** Faults that end by themselves, or of which both ends of a connection are told. */
const ARE_NOTICED: readonly string[] = ['reset', 'break', 'break after', 'hold', 'cut'];

/**
 * docs/guarantees.md, safety: a watchdog whose process has missed messages learns so soon after its next connection that its lock
 * is gone. One renewal may be without a reply.
 */
export function toldAfterGapMs({ storeOptions }: Pick<Plan, 'storeOptions'>): number {
  return RECONNECT_MS + 4 * storeOptions.commandTimeoutMs + ROUND_MS.max;
}

/**
 * docs/guarantees.md, safety: who loses its lock while it lives is told by its next renewal. Nothing renews a fixed lease.
 *
 * @param withinMs so long after the loss, and after all else that has kept its process from renewing
 */
export function mustBeTold(
  { disturbances, pauses, toldAfterGapMs }: History,
  { process, leaseMs, call }: HoldRecord,
  { since, now, withinMs }: { readonly since: number; readonly now: number; readonly withinMs: number },
): boolean {
  if (leaseMs !== undefined || call.includes('.')) return false;
  const own = disturbances.filter(
    (it) => it.at <= now && it.kind !== 'force' && (it.process ?? process) === process,
  );
  const until = Math.max(
    since,
    ...own.map(({ at, to }) => Math.max(at, to)),
    ...pauses.filter((it) => it.process === process && it.from <= now).map(({ to }) => to),
  );
  const isNoticed = own.every(({ kind }) => ARE_NOTICED.includes(kind));
  return now > until + (isNoticed ? Math.min(withinMs, toldAfterGapMs) : withinMs);
}
