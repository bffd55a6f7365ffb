import { describe, expect, it } from '@jest/globals';
import { ManualClock } from '../testing/manual-clock.js';
import { Openings } from './kept-connection.js';

const WITHIN_MS = 500;

function stage() {
  const clock = new ManualClock();
  const openings = new Openings<string>(clock);
  const outcomes: string[] = [];
  const wait = (key: string) => {
    const waiting = openings.wait({ key, withinMs: WITHIN_MS, lateError: () => new Error(`${key} is late`) });
    waiting.then(
      (opened) => outcomes.push(`${key} has ${opened}`),
      (error: Error) => outcomes.push(error.message),
    );
  };
  return { clock, openings, outcomes, wait };
}

describe('a caller that waits for a connection', () => {
  it('is rejected when its time is over, and gets nothing that opens later', async () => {
    const { clock, openings, outcomes, wait } = stage();
    wait('a');
    await clock.advance(WITHIN_MS / 2);
    wait('b');
    await clock.advance(WITHIN_MS / 2);
    expect(outcomes).toEqual(['a is late']);
    openings.onOpen('a connection');
    await clock.settle();
    expect(outcomes).toEqual(['a is late', 'b has a connection']);
  });

  it('leaves no timer once a connection is open, or is refused', async () => {
    const { clock, openings, outcomes, wait } = stage();
    wait('a');
    openings.onOpen('a connection');
    wait('b');
    openings.refuse((key) => new Error(`${key} is refused`));
    await clock.settle();
    expect(outcomes).toEqual(['a has a connection', 'b is refused']);
    expect([openings.size, clock.pendingTimers]).toEqual([0, 0]);
  });
});
