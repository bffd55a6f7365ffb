import type { Clock } from './clock.js';
import { nextTurn } from './next-turn.js';

/**
 * Runs `task` after `ms`, once the replies that have arrived by then are read. After a long turn of the event loop timers
 * run first, and would take an unread reply for silence.
 *
 * @param task gets the time at which `ms` was over; a long turn may come between that and its run
 * @returns cancels it
 */
export function afterReading(clock: Clock, ms: number, task: (overAt: number) => void): () => void {
  let isCancelled = false;
  const cancel = clock.after(ms, () => {
    const overAt = clock.now();
    nextTurn(clock, () => {
      if (!isCancelled) task(overAt);
    });
  });
  return () => {
    isCancelled = true;
    cancel();
  };
}
