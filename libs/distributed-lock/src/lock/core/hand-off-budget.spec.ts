import { describe, expect, it } from '@jest/globals';
import { HAND_OFF_BUDGET, HandOffBudget } from './hand-off-budget.js';

const { callers, shortestMs, longestMs } = HAND_OFF_BUDGET;

describe('the budget of local hand-offs', () => {
  it('is never spent while the key is not contended', () => {
    const budget = new HandOffBudget();
    for (let i = 0; i <= callers; i++) budget.count();
    expect(budget.isSpent(longestMs)).toBe(false);
    budget.start(0);
    budget.clear(1);
    expect(budget.isSpent(longestMs)).toBe(false);
  });

  it('is not cleared by the answer to a request that was sent before the last notification', () => {
    const budget = new HandOffBudget();
    budget.start(5);
    budget.clear(4);
    expect(budget.isRunning).toBe(true);
    budget.clear(5);
    expect(budget.isRunning).toBe(false);
  });

  it('is spent after so many callers, but not before the shortest time', () => {
    const budget = new HandOffBudget();
    budget.start(0);
    for (let i = 0; i < callers; i++) budget.count();
    expect(budget.isSpent(shortestMs - 0.1)).toBe(false);
    expect(budget.isSpent(shortestMs)).toBe(true);
  });

  it('is spent after the longest time, which later messages do not prolong', () => {
    const budget = new HandOffBudget();
    budget.start(0);
    budget.start(longestMs - 1);
    expect(budget.isSpent(longestMs - 0.1)).toBe(false);
    expect(budget.isSpent(longestMs)).toBe(true);
  });

  it('counts from the first caller, so that a slow confirmation of the grant takes nothing from it', () => {
    const budget = new HandOffBudget();
    budget.start(0);
    budget.onFirstCaller(longestMs);
    expect(budget.isSpent(longestMs)).toBe(false);
    expect(budget.isSpent(2 * longestMs)).toBe(true);
  });
});
