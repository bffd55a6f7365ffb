import type { Clock } from '../../lock/clock.js';

/**
 * Runs `task` after `ms`, once the answers that have arrived by then are read: after a long turn of the event loop timers
 * come first, and would take for silence what lies in the socket.
 *
 * @returns cancels it
 */
export function afterReading(clock: Clock, ms: number, task: () => void): () => void {
  let isCancelled = false;
  const cancel = clock.after(ms, () => {
    setImmediate(() => {
      if (!isCancelled) task();
    });
  });
  return () => {
    isCancelled = true;
    cancel();
  };
}
