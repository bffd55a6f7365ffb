import { describe, expect, it } from '@jest/globals';
import { HAND_OFF_BUDGET, HandOffBudget } from './hand-off-budget.js';

const { sharedMs, minMs, maxMs, minCallers } = HAND_OFF_BUDGET;

/** The time after which a budget that starts at 0 is spent, when so many callers have released by then. */
function lengthOf(budget: HandOffBudget, callers = minCallers): number {
  for (let i = 0; i < callers; i++) budget.count();
  let at = 0;
  while (!budget.isSpent(at)) at += 0.01;
  return Math.round(at * 100) / 100;
}

describe('the budget of local hand-offs', () => {
  it('is never spent while the key is not contended', () => {
    const budget = new HandOffBudget();
    expect(budget.isSpent(maxMs)).toBe(false);
    budget.start(0, 1, 0);
    budget.clear(1);
    expect(budget.isSpent(maxMs)).toBe(false);
  });

  it('is not cleared by the answer to a request that was sent before the last notification', () => {
    const budget = new HandOffBudget();
    budget.start(5, 1, 0);
    budget.clear(4);
    expect(budget.isRunning).toBe(true);
    budget.clear(5);
    expect(budget.isRunning).toBe(false);
  });

  it.each([
    { waiting: 1, hopMs: 0, ms: sharedMs },
    { waiting: 1, hopMs: 1, ms: sharedMs - 1 },
    { waiting: 4, hopMs: 0.25, ms: sharedMs / 4 - 0.25 },
    { waiting: 100, hopMs: 0.25, ms: minMs },
    { waiting: 1, hopMs: 50, ms: minMs },
  ])('is $ms ms long for $waiting that wait, with a round trip of $hopMs ms', ({ waiting, hopMs, ms }) => {
    const budget = new HandOffBudget();
    budget.start(0, waiting, hopMs);
    expect(lengthOf(budget)).toBeCloseTo(ms, 1);
  });

  it('lets a minimum of callers through, but for no longer than the longest time', () => {
    const budget = new HandOffBudget();
    budget.start(0, 4, 0);
    expect(lengthOf(budget, minCallers - 1)).toBeCloseTo(maxMs, 1);
  });

  it('counts from the first news, and is as long as the last one leaves it', () => {
    const budget = new HandOffBudget();
    budget.start(0, 1, 0);
    budget.start(1, 4, 0);
    expect(lengthOf(budget)).toBeCloseTo(sharedMs / 4, 1);
    budget.start(1, 1, 0);
    expect(lengthOf(budget)).toBeCloseTo(sharedMs, 1);
  });

  it('counts from the first caller, so that a slow confirmation of the grant takes nothing from it', () => {
    const budget = new HandOffBudget();
    budget.start(0, 1, 0);
    budget.onFirstCaller(maxMs);
    expect(budget.isSpent(maxMs)).toBe(false);
    expect(budget.isSpent(2 * maxMs)).toBe(true);
  });
});
