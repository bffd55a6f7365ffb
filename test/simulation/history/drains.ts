import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import type { Plan } from '../plan/plan.js';
import type { Drain } from './history.js';
import type { Actor, Parts } from './stage.js';

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
 * any more.
 */
export function checkDrained(
  { history }: Parts,
  { store, storeOptions }: Plan,
  { process: { name, trueNow } }: Actor,
  { at, graceMs }: Drain,
): void {
  const ends = history.holds.filter((it) => it.process === name).map(({ endedAt = trueNow }) => endedAt);
  const from = graceMs === Infinity ? Math.max(at, ...ends) : at + graceMs;
  // A command of a quorum may ask a node twice.
  const commandTimeoutMs = (store === 'quorum' ? 2 : 1) * storeOptions.commandTimeoutMs;
  const mostMs = 2 * commandTimeoutMs + SLACK_MS;
  const hasPaused = history.pauses.some((it) => it.process === name && it.to >= at);
  if (trueNow - from <= mostMs || hasPaused) return;
  history.violate('lateness', `drain() of ${name} took ${Math.round(trueNow - at)} ms`);
}
