import type { Owner } from './owner.js';

/** The bounds of the budget. The processes that wait divide `sharedMs` among themselves. */
export const HAND_OFF_BUDGET = { sharedMs: 4, minMs: 0.5, minCallers: 16, maxMs: 16 };

/**
 * How long a process may go on with local hand-offs after the key became contended.
 *
 * With n other processes waiting, one of their callers waits for about n budgets and n + 1 remote hand-offs. So the budget is
 * `sharedMs` divided by n, less the time of a remote hand-off, and no shorter than `minMs`: below that, remote hand-offs would take
 * most of the time. At least `minCallers` are served, so that a remote hand-off costs little beside work of a millisecond. `maxMs`
 * bounds the wait of other processes in any case.
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
   * Starts the budget, because the key is contended. A budget that is running goes on from where it started, with the length for the
   * present number of waiting processes.
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
   * Starts a running budget again when the first caller is admitted, because the time until the grant was confirmed was not spent on
   * hand-offs.
   */
  onFirstCaller(now: number): void {
    if (this.isRunning) this.startedAt = now;
  }

  /**
   * Ends the budget, because the store has replied that nobody waits. Ignored if a notification has said since the request that
   * somebody does: it may have overtaken the reply.
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
   * Starts or ends the budget by a number in a reply of the store.
   *
   * @param askedAt when the request was sent
   */
  onWaitingCount(waiting: number, askedAt: number): void {
    if (!this.onOthers(waiting)) this.clear(askedAt);
  }

  /**
   * Starts the budget if other owners wait.
   *
   * @param waiting how many owners wait in the store's queue. One of them may be the next owner of this local queue.
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

  /** Called when a caller of this process begins to wait for this owner's lock, as the first one. */
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
