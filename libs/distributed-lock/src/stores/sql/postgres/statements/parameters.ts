import { clientOf, clientsOf } from '../../../core/document.js';
import { documentText, noteText, takenText } from '../../../core/document-text.js';
import type { Swap, Take } from '../../../core/register.js';
import { channelId } from './notifications.js';

/** The parameters of the statement for a take, in their order. */
export function takeParameters({ name, request, minToken, notes, notAfter }: Take) {
  return {
    name,
    state: takenText(request),
    floor: minToken,
    tokens: request.tokens,
    client: channelId(clientOf(request.owner)),
    until: micros(notAfter()),
    // The statement replaces each line break by its time and `],`.
    notes: notes.map((note) => `${noteText(note)}\n`).join(''),
  };
}

/** The parameters of the statement for a swap, in their order. */
export function swapParameters({ name, expected, next, lastToken, isExact, notified, notAfter }: Swap) {
  return {
    name,
    version: expected.version,
    state: documentText(next),
    last: lastToken,
    clients: channelIds(clientsOf(next.holders)),
    read: expected.notesRead,
    exact: isExact ? 1 : 0,
    until: micros(notAfter()),
    notified: channelIds(notified),
  };
}

function channelIds(clients: readonly string[]): string {
  return clients.map(channelId).join(',');
}

function micros(ms: number): number {
  return Math.floor(ms * 1000);
}
