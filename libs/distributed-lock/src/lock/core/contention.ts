import type { Hold } from './hold.js';
import type { Owner } from './owner.js';

/**
 * Bounds of a hand-off budget, in ms and in callers. A process with a contended lock may hand it off locally for `sharedMs` divided by the
 * number of waiting processes, but at least for `minMs`, and longer if it has not served `minCallers` callers by then. It never goes on for
 * longer than `maxMs`.
 */
export const HAND_OFF_BUDGET = { sharedMs: 3.5, minMs: 0.5, minCallers: 16, maxMs: 16 };

/**
 * Knows who waits for the key of one owner, and how long the owner may go on with local hand-offs meanwhile: its hand-off budget.
 *
 * If n other processes wait, a caller of one of them waits for about n budgets and n + 1 remote hand-offs. So the budget is `sharedMs`
 * divided by n, but at least `minMs`: with less, remote hand-offs would take most of the time. The time of a remote hand-off is not
 * subtracted. Where it is long, that would leave `minMs` of work for each of them, and the callers would wait no less. The budget lasts
 * until `minCallers` callers were served, so that a remote hand-off takes little time compared with their work, if each works for about a
 * millisecond. `maxMs` bounds the wait of the other processes in any case.
 */
export class Contention {
  /** When the budget began; `undefined` while no other owner waits. */
  private startedAt: number | undefined;
  /** When other owners were last reported to wait. */
  private toldAt = -Infinity;
  private lastsMs = HAND_OFF_BUDGET.sharedMs;
  /** How many callers were served within the budget. */
  private served = 0;

  constructor(private readonly owner: Owner) {}

  /** Whether owners of other processes wait in the store's queue, as far as this process knows. */
  get hasWaitingOwners(): boolean {
    return this.startedAt !== undefined;
  }

  /** Whether others wait: callers in the local queue, or owners in the store's queue. */
  get isContended(): boolean {
    return this.owner.queue.size > 0 || this.hasWaitingOwners;
  }

  /**
   * Called with the number of waiting owners from a reply of the store. Starts the budget, or ends it if nobody waits. But the budget goes on if
   * a notification reported a waiting owner after the request was sent, because the notification may be newer than the reply.
   *
   * @param askedAt when the request was sent
   */
  onWaitingCount(waiting: number, askedAt: number): void {
    if (this.onOthers(waiting) || this.toldAt > askedAt) return;
    this.startedAt = undefined;
    this.served = 0;
  }

  /**
   * Starts the budget if owners of other processes wait. If it is running already, its start stays, and only its length is computed anew.
   *
   * @param waiting how many owners wait in the store's queue. While this owner holds for readers or permits, or after a downgrade, one of
   * them may belong to the same local queue, and does not count
   * @returns whether others wait
   */
  onOthers(waiting: number): boolean {
    // Read this first: it becomes true as soon as `startedAt` is set below.
    const { owner, isContended } = this;
    const others = waiting - (owner.queue.isInStoreQueue ? 1 : 0);
    if (others <= 0) return false;
    const { sharedMs, minMs } = HAND_OFF_BUDGET;
    this.toldAt = owner.now;
    this.startedAt ??= this.toldAt;
    this.lastsMs = Math.max(minMs, sharedMs / others);
    if (!isContended) this.report();
    return true;
  }

  /** Called when the first caller of this process begins to wait for the lock that this owner has. */
  onFirstWaiter(): void {
    const { owner } = this;
    if (!this.hasWaitingOwners) this.report();
    if (owner.holds.find(isOfAcquire)) owner.runtime.forgottenReleases.onWaiter();
  }

  /**
   * Restarts a running budget when the first caller is admitted, because the time before that, while the grant was being confirmed, was not
   * spent on hand-offs.
   */
  onFirstCaller(now: number): void {
    if (this.hasWaitingOwners) this.startedAt = now;
  }

  /** Called when a caller has released. */
  count(): void {
    if (this.hasWaitingOwners) this.served += 1;
  }

  isSpent(now: number): boolean {
    if (this.startedAt === undefined) return false;
    const { maxMs, minCallers } = HAND_OFF_BUDGET;
    const lastedMs = now - this.startedAt;
    return lastedMs >= maxMs || (lastedMs >= this.lastsMs && this.served >= minCallers);
  }

  private report(): void {
    const { key, id: owner, runtime, isHeld } = this.owner;
    runtime.holderDirectory.onContended();
    if (isHeld) runtime.emit({ type: 'contended', key, owner });
  }
}

function isOfAcquire({ acquireSite }: Hold): boolean {
  return acquireSite !== undefined;
}
