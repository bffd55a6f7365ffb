import { describe, expect, it } from '@jest/globals';
import { DocumentProtocol, type DocumentWorld } from './document-protocol.js';
import type { DocumentRule } from './document-state.js';
import { explore, type Model } from './explorer.js';

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

describe('the explorer', () => {
  const counter = (worst: number): Model<number> => ({
    start: 0,
    keyOf: String,
    violation: (n) => (n === worst ? `it is ${n}` : undefined),
    *steps(n) {
      if (n < 5) yield { name: 'one', to: n + 1 };
      if (n < 4) yield { name: 'two', to: n + 2 };
      if (n > 0) yield { name: 'back', to: 0 };
    },
  });

  it('finds the shortest way to what must not be, and says whether it has seen all', () => {
    expect(explore(counter(4), 100).violation).toEqual({ what: 'it is 4', trace: ['two', 'two'] });
    expect(explore(counter(-1), 100)).toEqual({ states: 6, isComplete: true });
    expect(explore(counter(-1), 3).isComplete).toBe(false);
  });
});
