import { Observable } from 'rxjs';
import type { Clock } from '../../time/clock.js';
import { detached } from '../../async-context/detached.js';

/** The same clock. Its timers run outside of every async context. */
export function detachedClock(clock: Clock): Clock {
  return {
    now: () => clock.now(),
    ...(clock.timeOfDay && { timeOfDay: () => clock.timeOfDay?.() as number }),
    ...(clock.nextTurn && { nextTurn: (task) => clock.nextTurn?.(task) }),
    after: (ms, task) => detached(() => clock.after(ms, task)),
    interval: (ms) => new Observable((out) => detached(() => clock.interval(ms).subscribe(out))),
  };
}
