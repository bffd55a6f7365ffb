import type { Owner } from './owner.js';

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

/** Who waits for the key of one owner, and how long the owner may go on with local hand-offs meanwhile. */
export class Contention extends HandOffBudget {
  constructor(private readonly owner: Owner) {
    super();
  }

  /** Others wait: callers in the local queue, or owners in the store's queue as far as this process knows. */
  get isContended(): boolean {
    return this.owner.callers.size > 0 || this.isRunning;
  }

  /** @param askedAt when the request was sent to which the store has replied with this number */
  onWaitingCount(waiting: number, askedAt: number): void {
    if (!this.onOthers(waiting)) this.clear(askedAt);
  }

  /**
   * Starts the budget if other owners wait.
   *
   * @param waiting how many owners wait in the store's queue. One of them may be the next one of this local queue.
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

  /** A caller of this process begins to wait, and no other waits. */
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
