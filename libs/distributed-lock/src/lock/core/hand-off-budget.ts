import type { Owner } from './owner.js';

/**
 * Bounds of a hand-off budget, in ms and in callers. A process with a contended lock may hand it off locally for `sharedMs` divided by the
 * number of waiting processes, but at least for `minMs`, and longer if it has not served `minCallers` callers by then. It never goes on for
 * longer than `maxMs`.
 */
export const HAND_OFF_BUDGET = { sharedMs: 4, minMs: 0.5, minCallers: 16, maxMs: 16 };

/**
 * How long a process may go on with local hand-offs after the key became contended.
 *
 * If n other processes wait, a caller of one of them waits for about n budgets and n + 1 remote hand-offs. So the budget is `sharedMs`
 * divided by n, minus the time of a remote hand-off. It is at least `minMs`: with less, remote hand-offs would take most of the time. And
 * it lasts until `minCallers` callers were served, so that a remote hand-off takes little time compared with their work, if each works for
 * about a millisecond. `maxMs` bounds the wait of the other processes in any case.
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
   * Starts the budget, because the key is contended. If the budget is running already, its start stays, and only its length is computed
   * anew for the present number of waiting processes.
   *
   * @param hopMs about how long a remote hand-off takes
   */
  start(now: number, waiting: number, hopMs: number): void {
    const { sharedMs, minMs } = HAND_OFF_BUDGET;
    this.startedAt ??= now;
    this.toldAt = now;
    this.lastsMs = Math.max(minMs, sharedMs / waiting - hopMs);
  }

  /**
   * Restarts a running budget when the first caller is admitted, because the time before that, while the grant was being confirmed, was not
   * spent on hand-offs.
   */
  onFirstCaller(now: number): void {
    if (this.isRunning) this.startedAt = now;
  }

  /**
   * Ends the budget, because a reply of the store says that nobody waits. Does nothing if somebody was reported to wait after that request
   * was sent: such a notification may be newer than the reply.
   *
   * @param askedAt when the request was sent
   */
  clear(askedAt: number): void {
    if (this.toldAt > askedAt) return;
    this.startedAt = undefined;
    this.callers = 0;
  }

  /** Called when a caller has released, to count the callers served within the budget. */
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

/** Knows who waits for the key of one owner, and how long the owner may go on with local hand-offs meanwhile. */
export class Contention extends HandOffBudget {
  constructor(private readonly owner: Owner) {
    super();
  }

  /** Whether others wait: callers in the local queue, or owners in the store's queue as far as this process knows. */
  get isContended(): boolean {
    return this.owner.callers.size > 0 || this.isRunning;
  }

  /**
   * Called with the number of waiting owners from a reply of the store. Starts the budget, or ends it if nobody waits.
   *
   * @param askedAt when the request was sent
   */
  onWaitingCount(waiting: number, askedAt: number): void {
    if (!this.onOthers(waiting)) this.clear(askedAt);
  }

  /**
   * Starts the budget if owners of other processes wait.
   *
   * @param waiting how many owners wait in the store's queue; one of them may belong to the same local queue as this owner, and does not
   * count
   * @returns whether others wait
   */
  onOthers(waiting: number): boolean {
    const { owner } = this;
    const others = waiting - (owner.callers.isInStoreQueue ? 1 : 0);
    if (others <= 0) return false;
    const isNews = !this.isContended;
    this.start(owner.now, others, owner.acquireLoop.roundTripMs);
    if (isNews) this.report();
    return true;
  }

  /** Called when the first caller of this process begins to wait for the lock that this owner has. */
  onFirstWaiter(): void {
    if (!this.isRunning) this.report();
    if (this.owner.holds.forgotten.length > 0) this.owner.runtime.forgottenReleases.onWaiter();
  }

  private report(): void {
    const { key, id: owner, runtime, isHeld } = this.owner;
    runtime.holderDirectory.onContended();
    if (isHeld) runtime.emit({ type: 'contended', key, owner });
  }
}
