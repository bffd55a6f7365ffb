import type { NeverRejects } from '../async-context/in-background.js';
import type { Clock } from './clock.js';
import { nextTurn } from './next-turn.js';

/** Resolves when the replies that have arrived by now are read. A long turn of the event loop leaves them in the socket. */
export function arrivedReplies(clock: Clock): NeverRejects<void> {
  const turn = (): Promise<void> => new Promise((resolve) => nextTurn(clock, resolve));
  // The first turn may end without looking at the sockets again.
  return turn().then(turn) as NeverRejects<void>;
}
