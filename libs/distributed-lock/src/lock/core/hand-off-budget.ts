/** The bounds of the budget. The processes that wait share `sharedMs`. */
export const HAND_OFF_BUDGET = { sharedMs: 4, minMs: 0.5, minCallers: 16, maxMs: 16 };

/**
 * How long a process may go on with local hand-offs from the moment that the key is contended.
 *
 * With n processes that wait, a caller of theirs waits for about n budgets and n + 1 remote hand-offs. So the more of them wait, the
 * shorter is the budget, and what a remote hand-off takes is taken off it. Below `minMs` the remote hand-offs would take most of the
 * time. `minCallers` make them small beside work of a millisecond, and `maxMs` bounds the wait of other processes.
 */
export class HandOffBudget {
  private startedAt: number | undefined;
  private toldAt = -Infinity;
  private lastsMs = HAND_OFF_BUDGET.sharedMs;
  private callers = 0;

  get isRunning(): boolean {
    return this.startedAt !== undefined;
  }

  /**
   * The key is contended. A budget that is running goes on, for as long as this number of processes leaves it.
   *
   * @param hopMs about how long a remote hand-off takes
   */
  start(now: number, waiting: number, hopMs: number): void {
    const { sharedMs, minMs } = HAND_OFF_BUDGET;
    this.startedAt ??= now;
    this.toldAt = now;
    this.lastsMs = Math.max(minMs, sharedMs / waiting - hopMs);
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
    if (this.toldAt > askedAt) return;
    this.startedAt = undefined;
    this.callers = 0;
  }

  /** A caller has released. */
  count(): void {
    if (this.isRunning) this.callers += 1;
  }

  isSpent(now: number): boolean {
    if (this.startedAt === undefined) return false;
    const { maxMs, minCallers } = HAND_OFF_BUDGET;
    const lastedMs = now - this.startedAt;
    return lastedMs >= maxMs || (lastedMs >= this.lastsMs && this.callers >= minCallers);
  }
}
