/** Local hand-offs stop after this many callers, but not before `shortestMs`, and in any case after `longestMs`. */
export const HAND_OFF_BUDGET = { callers: 16, shortestMs: 1.5, longestMs: 16 };

/**
 * How long a process may go on with local hand-offs from the moment that the key is contended.
 *
 * A remote hand-off takes the same time whatever the work is. `callers` makes that time small beside work of a
 * millisecond or more, and `shortestMs` makes it small beside shorter work. `longestMs` bounds the wait of other
 * processes.
 */
export class HandOffBudget {
  private startedAt: number | undefined;
  private toldAt = -Infinity;
  private callers = 0;

  get isRunning(): boolean {
    return this.startedAt !== undefined;
  }

  /** The key is contended. A budget that is running goes on. */
  start(now: number): void {
    this.startedAt ??= now;
    this.toldAt = now;
  }

  /** The first caller begins. The time until the grant was confirmed does not count as hand-offs. */
  onFirstCaller(now: number): void {
    if (this.isRunning) this.startedAt = now;
  }

  /**
   * The key was not contended when the store executed a request. A notification may have overtaken the answer.
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
    const { callers, shortestMs, longestMs } = HAND_OFF_BUDGET;
    const lastedMs = now - this.startedAt;
    return lastedMs >= longestMs || (lastedMs >= shortestMs && this.callers >= callers);
  }
}
