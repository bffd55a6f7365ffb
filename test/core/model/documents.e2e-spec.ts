import { describe, expect, it } from '@jest/globals';
import { DocumentProtocol, type DocumentWorld } from './documents/document-protocol.js';
import type { DocumentRule } from './documents/document-state.js';
import { explore } from './explorer.js';

const MOST_STATES = 50_000;
const TIMEOUT_MS = 120_000;

const world = (clients: number, rounds: number, faults: number, ticks: number): DocumentWorld => {
  return { clients, rounds, faults, ticks };
};

describe('one document and its clients, in all ways that a small world can go', () => {
  it.each([world(2, 1, 1, 1), world(1, 2, 1, 2)])(
    'holders are in the document, tokens grow, and no note is lost, overtaken, or left behind: $clients clients, $rounds rounds, $faults faults, $ticks ticks',
    (size) => {
      const found = explore(new DocumentProtocol(size), MOST_STATES);
      expect(found.violation).toBeUndefined();
      expect(found.isComplete).toBe(true);
    },
    TIMEOUT_MS,
  );

  const without: readonly (readonly [DocumentRule, DocumentWorld, what: string])[] = [
    ['D1 versions are never used twice', world(2, 1, 1, 1), 'a holder is not in the document'],
    ['D2 not after', world(1, 1, 1, 2), 'an owner that was released holds or waits'],
    ['D2 repeated release', world(1, 1, 1, 1), 'an owner that was released holds or waits'],
    ['D3 notes', world(2, 1, 0, 0), 'a waiter has lost the swap that puts it in the queue'],
    ['D4 exact writes', world(2, 1, 0, 0), 'an owner sleeps beside a free key'],
    ['D5 unread notes are kept', world(3, 1, 0, 0), 'the note of an owner that waits is lost'],
    ['D7 no answer from an old reading', world(1, 2, 1, 2), 'an owner that was released holds or waits'],
  ];
  it.each(without)(
    'is broken without %s',
    (off, size, what) => {
      const found = explore(new DocumentProtocol({ ...size, off }), MOST_STATES);
      expect(found.violation).toMatchObject({ what });
    },
    TIMEOUT_MS,
  );
});
