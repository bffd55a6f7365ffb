import type { Clock } from './clock.js';

/** Runs `task` in the next turn of the event loop: that of the clock if it has one of its own. */
export function nextTurn(clock: Clock, task: () => void): void {
  if (clock.nextTurn) clock.nextTurn(task);
  else setImmediate(task);
}
