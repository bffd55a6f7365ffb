/** Of what a process may take while others wait: so many callers, unless that is too short for the way, or too long to wait. */
export const HAND_OFF_BUDGET = { callers: 16, shortestMs: 1.5, longestMs: 16 };

/**
 * How long a process may go on passing the lock to its own callers, from the moment that others wait for it.
 *
 * The way to the next process takes about as long whatever the work is. Counting callers makes it small beside work of a
 * millisecond, and the two bounds keep it small beside less work and others' waits short beside more.
 */
export class HandOffBudget {
  private startedAt: number | undefined;
  private callers = 0;

  /** Others wait. */
  get isRunning(): boolean {
    return this.startedAt !== undefined;
  }

  /** Others wait from now on, if they did not before. */
  start(now: number): void {
    this.startedAt ??= now;
  }

  /** Nobody else waits. */
  clear(): void {
    this.startedAt = undefined;
    this.callers = 0;
  }

  /** One more caller is done. */
  count(): void {
    if (this.startedAt !== undefined) this.callers += 1;
  }

  isSpent(now: number): boolean {
    if (this.startedAt === undefined) return false;
    const lastedMs = now - this.startedAt;
    return (
      lastedMs >= HAND_OFF_BUDGET.longestMs ||
      (lastedMs >= HAND_OFF_BUDGET.shortestMs && this.callers >= HAND_OFF_BUDGET.callers)
    );
  }
}
