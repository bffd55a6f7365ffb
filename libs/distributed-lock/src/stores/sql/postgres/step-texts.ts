import { clientOf, clientsOf } from '../../document/document.js';
import { documentText, noteText, takenText } from '../../document/document-text.js';
import type { SqlSwap, SqlTake } from '../steps.js';
import { channelId } from './channel.js';

/** The steps of one statement as its JSON parameter. */
export function takesText(takes: readonly SqlTake[]): string {
  return JSON.stringify(
    takes.map(({ name, request, minToken, notes, until }) => {
      const own = channelId(clientOf(request.owner));
      return {
        name,
        state: takenText(request),
        clients: own,
        floor: minToken,
        tokens: request.tokens,
        // The statement puts its time for the end of each line.
        notes: notes.map((note) => `${noteText(note)}\n`).join(''),
        until: Math.floor(until() * 1000),
        own,
      };
    }),
  );
}

export function swapsText(swaps: readonly SqlSwap[]): string {
  return JSON.stringify(
    swaps.map(({ name, seen, next, lastToken, isExact, told, until }) => ({
      name,
      version: seen.version,
      state: documentText(next),
      last: lastToken,
      clients: channelIds(clientsOf(next.holders)),
      read: seen.notesRead,
      exact: isExact ? 1 : 0,
      told: channelIds(told),
      until: Math.floor(until() * 1000),
    })),
  );
}

function channelIds(clients: readonly string[]): string {
  return clients.map(channelId).join(',');
}
