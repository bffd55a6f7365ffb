import { Observable } from 'rxjs';
import type { Clock } from '../../time/clock.js';
import { outside } from '../../async-context/outside.js';

/** The same clock. Its timers run outside of every async context. */
export function outsideClock(clock: Clock): Clock {
  return {
    now: () => clock.now(),
    ...(clock.timeOfDay && { timeOfDay: () => clock.timeOfDay?.() as number }),
    ...(clock.nextTurn && { nextTurn: (task) => clock.nextTurn?.(task) }),
    after: (ms, task) => outside(() => clock.after(ms, task)),
    interval: (ms) => new Observable((out) => outside(() => clock.interval(ms).subscribe(out))),
  };
}
