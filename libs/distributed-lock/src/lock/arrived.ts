import { setImmediate as turn } from 'node:timers/promises';

/** Resolves when what has arrived by now is read: after a long turn of the event loop it still lies in the socket. */
export async function whatHasArrived(): Promise<void> {
  // The first turn may end without looking at the sockets again.
  await turn();
  await turn();
}
