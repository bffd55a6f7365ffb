import type { Clock } from './clock.js';

/**
 * Runs `task` after `ms`, once the answers that have arrived by then are read: after a long turn of the event loop timers
 * come first, and would take for silence what lies in the socket.
 *
 * @param task is told when the time was over: a long turn may lie between that and its run
 * @returns cancels it
 */
export function afterReading(clock: Clock, ms: number, task: (overAt: number) => void): () => void {
  let isCancelled = false;
  const cancel = clock.after(ms, () => {
    const overAt = clock.now();
    setImmediate(() => {
      if (!isCancelled) task(overAt);
    });
  });
  return () => {
    isCancelled = true;
    cancel();
  };
}
