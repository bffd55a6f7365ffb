import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { rowOf, run, SMALL, WITHOUT } from './experiments.js';
import { explore, type Model } from './explorer.js';

const MOST_STATES = 200_000;
const page = readFileSync(new URL('../../../docs/model.md', import.meta.url), 'utf8').replaceAll(
  / +\|/g,
  ' |',
);

describe('the protocol, in all ways that a small world can go', () => {
  it.each(SMALL)(
    'keeps one holder, growing tokens, no orphan and nobody waiting for ever: $size',
    (experiment) => {
      const found = run(experiment, MOST_STATES);
      expect(found.violation).toBeUndefined();
      expect(found.isComplete).toBe(true);
      expect(page).toContain(rowOf(experiment, found));
    },
    60_000,
  );

  const necessary = WITHOUT.filter(({ backup, isLarge }) => backup === undefined && !isLarge);
  it.each(necessary)(
    'is broken without $off, by the number of steps that the page tells',
    (experiment) => {
      const found = run(experiment, MOST_STATES);
      expect(found.violation?.trace.length).toBeGreaterThan(0);
      expect(page).toContain(rowOf(experiment, found));
    },
    60_000,
  );

  const backedUp = WITHOUT.filter(({ backup }) => backup !== undefined);
  it.each(backedUp)(
    'is not broken without $off, as something else stands in for it',
    (experiment) => {
      const found = run(experiment, MOST_STATES);
      expect(found).toMatchObject({ isComplete: true });
      expect(found.violation).toBeUndefined();
      expect(page).toContain(rowOf(experiment, found));
    },
    60_000,
  );
});

describe('the explorer', () => {
  /** A counter that may be stuck at 5: from 3 on only a fault leads back. */
  const counter = (worst: number, wish: number): Model<number> => ({
    start: 0,
    keyOf: String,
    violation: (n) => (n === worst ? `it is ${n}` : undefined),
    wishes: [{ name: 'it is small', isWanted: (n) => n !== wish }],
    *steps(n) {
      if (n < 5) yield { name: 'one', to: n + 1 };
      if (n < 4) yield { name: 'two', to: n + 2 };
      if (n > 0) yield { name: 'back', to: 0, isFault: n > 3 };
    },
  });

  it('finds the shortest way to what must not be', () => {
    expect(explore(counter(4, 5), 100).violation).toEqual({ what: 'it is 4', trace: ['two', 'two'] });
  });

  it('finds the state from which what is wished for cannot come any more without a fault', () => {
    expect(explore(counter(-1, 1), 100).violation?.what).toBe('it is small for ever');
    expect(explore(counter(-1, 5), 100)).toEqual({ states: 6, isComplete: true });
  });

  it('says when it has not seen all', () => {
    expect(explore(counter(-1, 5), 3).isComplete).toBe(false);
  });
});
