import type { Chance } from './chance.js';
import { timeOfDay, type Clock } from './clock.js';

const lastOf = new WeakMap<Clock, number>();

/**
 * The time of day in µs, larger with each call for one clock. The µs within the ms are random if the clock is not the
 * machine's, or if the machine's time of day was set.
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
