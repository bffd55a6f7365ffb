import type { NeverRejects } from '../async-context/in-background.js';
import type { Clock } from './clock.js';

/** Runs `task` in the next turn of the event loop: that of the clock if it has one of its own. */
export function nextTurn(clock: Clock, task: () => void): void {
  if (clock.nextTurn) clock.nextTurn(task);
  else setImmediate(task);
}

/**
 * The deadline of a reply: runs `task` after `ms`, once the replies that have arrived by then are read. After a long turn of the event loop timers
 * run first, and would take an unread reply for silence.
 *
 * @param task gets the time at which `ms` was over; a long turn may come between that and its run
 * @returns cancels it
 */
export function giveUpAfter(clock: Clock, ms: number, task: (overAt: number) => void): () => void {
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

/** Resolves when the replies that have arrived by now are read. A long turn of the event loop leaves them in the socket. */
export function arrivedReplies(clock: Clock): NeverRejects<void> {
  const turn = (): Promise<void> => new Promise((resolve) => nextTurn(clock, resolve));
  // The first turn may end without looking at the sockets again.
  return turn().then(turn) as NeverRejects<void>;
}
