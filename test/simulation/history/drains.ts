import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import type { Drain, History } from './history.js';
import type { Actor } from './stage.js';

/** Timers are late by a little, and clocks differ by less than 1 %. */
const SLACK_MS = 50;

/** `shutdownGraceMs` of the services of a process. */
export function graceOf({ services }: Actor): number {
  return (services[0] as LockService).options.shutdownGraceMs;
}

/** The services of this process are told to close now. */
export function drainOf(actor: Actor): Drain {
  const { name, trueNow: at } = actor.process;
  const graceMs = graceOf(actor);
  return { process: name, at, graceMs, graceUntil: at + 0.99 * graceMs - 2 };
}

/**
 * docs/guarantees.md: a drain takes its grace and the time of two commands at most. A grace without an end is over when nobody holds
 * any more, and nobody waits who held.
 *
 * @param now the true time at which the drain has ended
 */
export function checkDrained(
  history: History,
  { process, at, graceMs }: Drain,
  { now, commandTimeoutMs }: { readonly now: number; readonly commandTimeoutMs: number },
): void {
  const own = history.holds.filter((it) => it.process === process);
  const ends = own.map(({ lockedUntil, endedAt = now }) => lockedUntil ?? endedAt);
  // A call whose flow held a lock when the drain began may wait on, also after that lock was lost.
  const nested = history.calls.filter((it) => it.process === process && it.under.length > 0);
  const waits = nested.map(({ settledAt = now }) => settledAt);
  const from = graceMs === Infinity ? Math.max(at, ...ends, ...waits) : at + graceMs;
  const mostMs = 2 * commandTimeoutMs + SLACK_MS;
  const hasPaused = history.pauses.some((it) => it.process === process && it.to >= at);
  if (now - from <= mostMs || hasPaused) return;
  history.violate('lateness', `drain() of ${process} took ${Math.round(now - at)} ms`);
}
