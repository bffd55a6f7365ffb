import type { Chance } from './chance.js';
import { timeOfDay, type Clock } from './clock.js';

const lastOf = new WeakMap<Clock, number>();

/**
 * The time of day in µs, larger with each call for one clock. Where the clock is not that of the machine, or the machine's
 * was set, chance gives the µs within its ms.
 */
export function nextMicros(clock: Clock, chance: Chance): number {
  const ms = timeOfDay(clock);
  const within = Math.floor((performance.timeOrigin + clock.now() - ms) * 1000);
  const isOfMachine = within >= 0 && within < 1000;
  const micros = ms * 1000 + (isOfMachine ? within : Math.floor(chance.random() * 1000));
  const next = Math.max(micros, (lastOf.get(clock) ?? 0) + 1);
  lastOf.set(clock, next);
  return next;
}
