import { clientOf, clientsOf } from '../../../core/document.js';
import { documentText, noteText, takenText } from '../../../core/document-text.js';
import type { SqlSwap, SqlTake } from '../../steps.js';
import { channelId } from './channel.js';

/** What a statement needs to know of a take, in the order of its parameters. */
export function takeParameters({ name, request, minToken, notes, until }: SqlTake) {
  return {
    name,
    state: takenText(request),
    floor: minToken,
    tokens: request.tokens,
    client: channelId(clientOf(request.owner)),
    until: micros(until()),
    // The statement puts its time for the end of each line.
    notes: notes.map((note) => `${noteText(note)}\n`).join(''),
  };
}

/** The same of a swap. */
export function swapParameters({ name, seen, next, lastToken, isExact, told, until }: SqlSwap) {
  return {
    name,
    version: seen.version,
    state: documentText(next),
    last: lastToken,
    clients: channelIds(clientsOf(next.holders)),
    read: seen.notesRead,
    exact: isExact ? 1 : 0,
    until: micros(until()),
    told: channelIds(told),
  };
}

function channelIds(clients: readonly string[]): string {
  return clients.map(channelId).join(',');
}

function micros(ms: number): number {
  return Math.floor(ms * 1000);
}
