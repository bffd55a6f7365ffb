import { setImmediate as turn } from 'node:timers/promises';
import type { Owned } from '../async/in-background.js';

/** Resolves when what has arrived by now is read: after a long turn of the event loop it still lies in the socket. */
export function arrivedReplies(): Owned<void> {
  // The first turn may end without looking at the sockets again.
  return turn().then(() => turn()) as Owned<void>;
}
