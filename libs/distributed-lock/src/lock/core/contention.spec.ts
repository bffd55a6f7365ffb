import { describe, expect, it } from '@jest/globals';
import { Contention, HAND_OFF_BUDGET } from './contention.js';
import type { Owner } from './owner.js';

const { sharedMs, minMs, maxMs, minCallers } = HAND_OFF_BUDGET;

class World {
  private readonly owner = {
    now: 0,
    queue: { size: 1, isInStoreQueue: false },
  };
  readonly budget = new Contention(this.owner as unknown as Owner);

  start(now: number, waiting: number): void {
    this.owner.now = now;
    this.budget.onWaitingCount(waiting, now);
  }

  /** The time after which a budget that starts at 0 is spent, when so many callers have released by then. */
  lengthFor(callers = minCallers): number {
    for (let i = 0; i < callers; i++) this.budget.count();
    let at = 0;
    while (!this.budget.isSpent(at)) at += 0.01;
    return Math.round(at * 100) / 100;
  }
}

describe('the budget of local hand-offs', () => {
  it('is never spent while the key is not contended', () => {
    const world = new World();
    expect(world.budget.isSpent(maxMs)).toBe(false);
    world.start(0, 1);
    world.budget.onWaitingCount(0, 1);
    expect(world.budget.isSpent(maxMs)).toBe(false);
  });

  it('is not cleared by the answer to a request that was sent before the last notification', () => {
    const world = new World();
    world.start(5, 1);
    world.budget.onWaitingCount(0, 4);
    expect(world.budget.hasWaitingOwners).toBe(true);
    world.budget.onWaitingCount(0, 5);
    expect(world.budget.hasWaitingOwners).toBe(false);
  });

  it.each([
    { waiting: 1, ms: sharedMs },
    { waiting: 4, ms: sharedMs / 4 },
    { waiting: 100, ms: minMs },
  ])('is $ms ms long for $waiting that wait', ({ waiting, ms }) => {
    const world = new World();
    world.start(0, waiting);
    expect(world.lengthFor()).toBeCloseTo(ms, 1);
  });

  it('lets a minimum of callers through, but for no longer than the longest time', () => {
    const world = new World();
    world.start(0, 4);
    expect(world.lengthFor(minCallers - 1)).toBeCloseTo(maxMs, 1);
  });

  it('counts from the first news, and is as long as the last one leaves it', () => {
    const world = new World();
    world.start(0, 1);
    world.start(1, 4);
    expect(world.lengthFor()).toBeCloseTo(sharedMs / 4, 1);
    world.start(1, 1);
    expect(world.lengthFor()).toBeCloseTo(sharedMs, 1);
  });

  it('counts from the first caller, so that a slow confirmation of the grant takes nothing from it', () => {
    const world = new World();
    world.start(0, 1);
    world.budget.onFirstCaller(maxMs);
    expect(world.budget.isSpent(maxMs)).toBe(false);
    expect(world.budget.isSpent(2 * maxMs)).toBe(true);
  });
});
