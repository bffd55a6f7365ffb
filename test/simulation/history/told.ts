import type { Plan } from '../plan/plan.js';
import type { History, HoldRecord } from './history.js';

/** The next connection follows within about a second. */
const RECONNECT_MS = 1500;

/** A watchdog learns within so many ms that its lock is gone: by its next renewal, however often that must be sent. */
export function toldWithinMs({ watchdogTimeoutMs, storeOptions }: Plan): number {
  return watchdogTimeoutMs / 3 + 4 * storeOptions.commandTimeoutMs + RECONNECT_MS;
}

/**
 * docs/guarantees.md, safety: who loses its lock while it lives is told by its next renewal. Nothing renews a fixed lease.
 *
 * @param withinMs so long after the loss, and after all else that has kept its process from renewing
 */
export function mustBeTold(
  { disturbances, pauses }: History,
  { process, leaseMs, call }: HoldRecord,
  { since, now, withinMs }: { readonly since: number; readonly now: number; readonly withinMs: number },
): boolean {
  if (leaseMs !== undefined || call.includes('.')) return false;
  const until = Math.max(
    since,
    ...disturbances
      .filter((it) => it.at <= now && it.kind !== 'force' && (it.process ?? process) === process)
      .map(({ at, to }) => Math.max(at, to)),
    ...pauses.filter((it) => it.process === process && it.from <= now).map(({ to }) => to),
  );
  return now > until + withinMs;
}
