/** The bounds of the budget in ms. `shared` is divided by the number of processes that wait. */
export const HAND_OFF_BUDGET = { sharedMs: 4, minMs: 0.5, maxMs: 4 };

/**
 * How long a process may go on with local hand-offs from the moment that the key is contended.
 *
 * With n processes that wait, a caller of theirs waits for about n budgets and n + 1 remote hand-offs. So the more of them wait, the
 * shorter is the budget, and what a remote hand-off takes is taken off it. Below `minMs` the remote hand-offs would take most of the
 * time.
 */
export class HandOffBudget {
  private startedAt: number | undefined;
  private toldAt = -Infinity;
  private lastsMs = HAND_OFF_BUDGET.maxMs;

  get isRunning(): boolean {
    return this.startedAt !== undefined;
  }

  /**
   * The key is contended. A budget that is running goes on, for as long as this number of processes leaves it.
   *
   * @param hopMs about how long a remote hand-off takes
   */
  start(now: number, waiting: number, hopMs: number): void {
    const { sharedMs, minMs, maxMs } = HAND_OFF_BUDGET;
    this.startedAt ??= now;
    this.toldAt = now;
    this.lastsMs = Math.min(maxMs, Math.max(minMs, sharedMs / waiting - hopMs));
  }

  /** The first caller begins. The time until the grant was confirmed does not count as hand-offs. */
  onFirstCaller(now: number): void {
    if (this.isRunning) this.startedAt = now;
  }

  /**
   * The key was not contended when the store executed a request. A notification may have overtaken the reply.
   *
   * @param askedAt when the request was sent
   */
  clear(askedAt: number): void {
    if (this.toldAt <= askedAt) this.startedAt = undefined;
  }

  isSpent(now: number): boolean {
    return this.startedAt !== undefined && now - this.startedAt >= this.lastsMs;
  }
}
