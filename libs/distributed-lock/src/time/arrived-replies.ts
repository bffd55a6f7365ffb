import { setImmediate as turn } from 'node:timers/promises';
import type { Owned } from '../async/in-background.js';

/** Resolves when the replies that have arrived by now are read. A long turn of the event loop leaves them in the socket. */
export function arrivedReplies(): Owned<void> {
  // The first turn may end without looking at the sockets again.
  return turn().then(() => turn()) as Owned<void>;
}
